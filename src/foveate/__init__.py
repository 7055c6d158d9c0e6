"""Foveate: attention models to train, run fast and look inside."""
