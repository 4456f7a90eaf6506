"""Finds what makes a case right or wrong: each axis varies one thing of a compile and compares the verdicts."""
