"""Worker processes: started once, isolated, one line of JSON for one line of JSON."""
