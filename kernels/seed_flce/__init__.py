"""The fused linear cross entropy of phlippe/liger_kernels, with the original order of operations. See README.md."""
