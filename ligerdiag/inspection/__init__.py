"""From an artifact or a stranger's files to verdicts, findings and coverage."""
