"""The limits on files that a service answers, which need no torch to be known."""

LONGEST = 600.0
"""Seconds of a recording."""
MOST_PIXELS = 1 << 24
"""Pixels of a picture, which take 250 MB while it is read: a quarter of what the reader allows with Pillow."""
MOST_VECTORS = 60_000
"""Vectors of a sequence: as many as ten minutes have, a hundred a second."""
