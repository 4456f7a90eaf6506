"""Describes a judged schedule for people: views, sentences about outputs, the neighbourhoods of writes, and changes
between compiles (drift). It decides no verdict.
"""
