"""Decides which findings are allowed: by a suppression with a reason, or by the file of known findings."""
