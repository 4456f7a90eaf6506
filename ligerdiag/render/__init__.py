"""Renderers: a report in, text out. Nothing here imports jax, runs a case or decides what a verdict is."""
