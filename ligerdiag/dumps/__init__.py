"""Reads files and directories of XLA's dumps, in all their forms."""
