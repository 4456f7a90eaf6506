"""Findings that the user allows, with a reason: in the code and in the configuration file; see docs/suppressions.md."""
