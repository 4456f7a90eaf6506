"""Traces a case in a worker, tags its operations with numbers, lowers and compiles it, and records the program that its
author means.
"""
