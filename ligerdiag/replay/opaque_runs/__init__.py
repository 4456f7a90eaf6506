"""Replays in f64 in which opaque functions replace the custom calls: functions that read and write the same buffers
(see `opaque`).
"""
