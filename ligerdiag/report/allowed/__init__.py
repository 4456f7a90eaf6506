"""Allows findings: suppressions, each with a reason, and the findings that a file says were there before."""
