"""The project is another author's: its tests run inside of it, see test_newcomer.py."""

collect_ignore = ["project"]
