"""Tests of this folder need an NVIDIA GPU."""

from pathlib import Path

import pytest

HAS_GPU = Path("/dev/nvidia0").exists()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.gpu)
            if not HAS_GPU:
                item.add_marker(pytest.mark.skip(reason="no NVIDIA GPU on this machine (/dev/nvidia0 is missing)"))
