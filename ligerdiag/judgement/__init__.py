"""Decides what a run's verdicts, findings and numbers amount to. Nothing here renders."""
