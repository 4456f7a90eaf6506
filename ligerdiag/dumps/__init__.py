"""Reads files and directories of XLA's dumps, in every form that they come in."""
