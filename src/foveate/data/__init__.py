"""Raw things to batches: text to tokens, tokens to stored rows, rows to padded batches in a reproducible order."""
