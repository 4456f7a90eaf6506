"""Reads the files and directories that XLA dumps, as protobuf or as text, plain or gzipped."""
