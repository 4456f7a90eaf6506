"""One file per report or doubt; each defines one `CASE` or one tuple of `CASES`."""
