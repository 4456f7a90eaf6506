"""The sample is somebody else's repository: its tests run there, see test_installed.py."""

collect_ignore = ["sample_project"]
