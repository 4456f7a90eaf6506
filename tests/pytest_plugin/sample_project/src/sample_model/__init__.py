"""A small model with an in-place kernel, as a user of ligerdiag would write it."""
