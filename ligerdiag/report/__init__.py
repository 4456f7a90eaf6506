"""Concludes a run from its verdicts, findings and numbers, and renders the result in each output format."""
