"""RMS normalization whose backward pass overwrites the cotangent. See README.md; start at `api`."""
