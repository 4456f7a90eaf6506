"""Worker side: traces, tags, lowers and compiles one case, and writes down its kernel calls."""
