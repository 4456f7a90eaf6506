"""`ligerdiag reduce`: finds the smallest program that still shows a finding, a disagreement, a crash of XLA, or verdicts
that differ between two toolchains.
"""
