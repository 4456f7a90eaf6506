"""Concludes a run by giving each case a status from its verdicts, findings and numbers, and renders the report in each
output format.
"""
