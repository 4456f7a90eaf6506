"""Finds out what makes a case (a function and its arguments) right or wrong: each axis varies one input of the compile,
such as the flags or the target, and compares the verdicts.
"""
