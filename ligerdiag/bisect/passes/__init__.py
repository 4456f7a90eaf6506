"""Which pass of XLA makes outputs wrong, from the snapshots of one compile."""
