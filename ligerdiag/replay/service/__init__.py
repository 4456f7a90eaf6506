"""Replay's parent side: which artifacts are replayed, in workers, and what is kept of the answers."""
