"""Worker processes: each is started once, isolated, and answers one line of JSON with one line of JSON."""
