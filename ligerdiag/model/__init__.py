"""Records that everything is said in: plain data, no decision. Standard library only."""
