"""One adapter a peer. Each imports its package at the top, so a missing one is skipped by name."""
