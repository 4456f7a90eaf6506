"""Judges an artifact or foreign files: verdicts, findings and coverage."""
