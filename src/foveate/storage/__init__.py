"""Run folders and checkpoints, which training writes completely or not at all.

Nothing is imported here, because code without torch uses `draft`, `manifest` and `run`.
"""
