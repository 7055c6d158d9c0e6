"""Masked language modelling: text with gaps."""
