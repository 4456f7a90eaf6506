"""Programs that call kernels of libraries besides jax-triton and Pallas, each in two forms.

`hidden` overwrites an operand that no output aliases, and reads it afterwards; in `declared` XLA knows of the write.
The libraries are no dependencies of ligerdiag: see `tests/effects/test_library_programs.py`.
"""
