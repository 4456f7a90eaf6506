"""Public reports of in-place trouble in JAX, XLA and their neighbours as small programs, and which tool finds which."""
