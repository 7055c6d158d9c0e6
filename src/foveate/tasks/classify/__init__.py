"""Classify: one label for a whole text."""
