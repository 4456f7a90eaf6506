"""Memory: where an access goes, what it reads and writes, and whether programs meet there."""
