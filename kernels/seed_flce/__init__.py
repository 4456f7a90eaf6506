"""The fused linear cross entropy of phlippe/liger_kernels, kept in its own order of operations. See README.md."""
