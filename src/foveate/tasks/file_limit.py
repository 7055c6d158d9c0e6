"""The limit on a recording that a service answers, which needs no torch to be known."""

LONGEST = 600.0
"""Seconds."""
