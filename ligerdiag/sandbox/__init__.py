"""A process that reads the files of strangers, so that ours does not have to: it may die, it may not do much else."""
