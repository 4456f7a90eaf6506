"""Reads foreign files in a process of its own, which may die without harm to ours, and which has given up most of its
rights.
"""
