"""Judges an artifact (the directory of a compile) or files that XLA dumped: verdicts, findings and coverage."""
