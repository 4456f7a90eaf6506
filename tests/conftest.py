"""Tests run in two processes; those of one room stay together, as they share what was compiled for them."""

from typing import Any

import pytest

pytest_plugins = ["pytester", "tests.plain_environment"]

TOGETHER = {"hlo": "analysis", "inspection": "analysis", "property": "analysis"}
"""Rooms that use each other's compiled programs."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Hands out whole rooms, the folders under tests/ (pytest 9.2 does not look where xdist 3.8 writes groups)."""
    from xdist.scheduler import LoadScopeScheduling

    class RoomScheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            room = nodeid.removeprefix("tests/").partition("/")[0]
            if room == "docs":
                return nodeid  # pages share nothing, and some take minutes
            return TOGETHER.get(room, room)

    return RoomScheduling(config, log)
