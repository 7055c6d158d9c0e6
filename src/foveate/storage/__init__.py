"""Run folders and checkpoints: what training writes and everything else reads, whole or not at all.

Nothing is imported here: `draft`, `manifest` and `run` serve code that has to do without torch.
"""
