"""Tests run in two processes; those of one room stay together, as they share what was compiled for them."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parent
_TOGETHER = {"hlo": "analysis", "inspection": "analysis", "property": "analysis"}
"""Rooms that use each other's compiled programs."""


@pytest.hookimpl(tryfirst=True)  # before xdist looks at the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Names each test's group for `--dist loadgroup`: its folder under tests/."""
    for item in items:
        room = item.path.relative_to(ROOT).parts[0]
        item.add_marker(pytest.mark.xdist_group(_TOGETHER.get(room, room)))
