"""Reads a kernel's Triton IR and follows its pointers from arguments to loads and stores."""
