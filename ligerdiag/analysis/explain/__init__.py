"""Describes a judged schedule for people: which instructions read and overwrite a buffer, sentences about outputs, and
the changes between two compiles (drift). It decides no verdict.
"""
