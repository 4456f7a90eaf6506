"""Trains a Llama with its loss in each mode, on the GPUs of this machine, and draws the curves."""
