"""The project is somebody else's: its tests run there, see test_scripts.py."""

collect_ignore = ["project"]
