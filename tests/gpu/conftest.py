"""The tests of this folder need an NVIDIA GPU. Each checks one case, so that `pytest tests/gpu -n 8` runs eight at a
time.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from ligerdiag import api
from tests.shared_run import CACHE_VARIABLE

HAS_GPU = Path("/dev/nvidia0").exists()
ROOT = Path(__file__).parents[2]


def parametrize_cases(metafunc: pytest.Metafunc, selectors: Sequence[str]) -> None:
    """Parametrizes `case_id` with each selected case and `case_ids` with all of them; without a GPU, with the
    selectors.
    """
    if not {"case_id", "case_ids"}.intersection(metafunc.fixturenames):
        return
    ids = tuple(selectors)
    if HAS_GPU:
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(ROOT)
            ids = tuple(case.id for case in api.list_cases(ids, cache_directory=Path(os.environ[CACHE_VARIABLE])))
    if "case_id" in metafunc.fixturenames:
        metafunc.parametrize("case_id", ids)
    else:
        metafunc.parametrize("case_ids", [ids], ids=["all"])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith("tests/gpu/"):
            item.add_marker(pytest.mark.gpu)
            if not HAS_GPU:
                item.add_marker(pytest.mark.skip(reason="no NVIDIA GPU on this machine (/dev/nvidia0 is missing)"))
