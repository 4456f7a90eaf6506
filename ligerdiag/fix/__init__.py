"""Finds a change of the user's source that makes every output fresh, and proves that the changed program is right. Each step
is one module.
"""
