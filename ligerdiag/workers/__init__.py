"""Worker processes: started once, isolated, one line of JSON in and one line of JSON out."""
