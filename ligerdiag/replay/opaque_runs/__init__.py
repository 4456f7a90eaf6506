"""Replays with opaque functions in place of custom calls, in f64."""
