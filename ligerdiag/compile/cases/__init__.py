"""Cases on both sides of the boundary: selected by the parent, loaded, settled and given arrays by a worker."""
