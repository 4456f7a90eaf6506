"""Worker processes: each is started once, isolated from the user's environment, and answers each job (a line of JSON)
with one line of JSON.
"""
