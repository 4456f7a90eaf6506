"""Rules about kernels, declarations and programs that are wrong under any schedule; each file holds one rule."""
