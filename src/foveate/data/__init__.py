"""Data for training: texts become tokens, tokens stored rows, and rows padded batches in a reproducible order."""
