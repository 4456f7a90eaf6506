"""The sample is somebody else's repository: its tests run there, see test_installed.py."""

from importlib.metadata import entry_points

import pytest

collect_ignore = ["sample_project"]

PLUGIN = () if entry_points(group="pytest11", name="ligerdiag") else ("-p", "ligerdiag.pytest_plugin")


@pytest.fixture(scope="session")
def plugin() -> tuple[str, ...]:
    """Words that make pytest load the plugin where the environment was not refreshed since it is one."""
    return PLUGIN
