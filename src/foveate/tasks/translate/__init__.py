"""Translate: sequences in, sequences out."""
