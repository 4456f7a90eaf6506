"""Words that several formats share."""
