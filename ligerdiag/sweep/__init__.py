"""Sweeps: checks many cases for many targets, toolchains and flags, on the processes of one machine or of a cluster."""
