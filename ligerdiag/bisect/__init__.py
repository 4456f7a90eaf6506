"""Finds the reasons why a case (a function and its arguments) is right or wrong. A bisection varies one input of the
compile, its axis, such as the flags or the target, and compares the verdicts.
"""
