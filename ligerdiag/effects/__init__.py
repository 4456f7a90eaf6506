"""Computes the effects of a custom call on each of its buffers from the call's payload, never from its declaration."""
