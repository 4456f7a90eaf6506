"""Keeps the sample out of this run: it is a repository by itself, whose tests test_installed.py runs."""

collect_ignore = ["sample_project"]
