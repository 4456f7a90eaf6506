"""What a custom call does to each of its buffers, read from what the call carries and never from what it declares."""
