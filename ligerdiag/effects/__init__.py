"""The effects of a custom call on each of its buffers, read from the payload of the call and never from its
declaration."""
