"""The memory of a compiled program: copies and their causes, donations, and the bytes that are alive over the schedule."""
