"""Excludes the sample from this run: it is a separate repository, whose tests test_installed.py runs."""

collect_ignore = ["sample_project"]
