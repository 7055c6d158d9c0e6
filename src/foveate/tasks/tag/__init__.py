"""Tag: a label for every word."""
