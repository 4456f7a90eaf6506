"""Concludes a run, which gives each case a status from its verdicts, findings and numbers, and renders the report in
each output format.
"""
