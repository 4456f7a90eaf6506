"""What may be found without failing: suppressions with a reason, and the findings that were there before."""
