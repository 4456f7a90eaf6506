"""`opcheck`, `bisect` and `fix` name the state of the caller that a worker could not get, as `check` does."""

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import ligerdiag
from ligerdiag import api
from ligerdiag.api.function import make_live_function, write_live_function
from ligerdiag.artifacts.cache import Cache
from ligerdiag.fix.cure_search import FixOptions, find_fixes
from ligerdiag.fix.fix_json import render_fixes_json
from ligerdiag.fix.words import render_fix
from ligerdiag.model.jobs import Source
from ligerdiag.report.comparisons import Axis
from ligerdiag.report.json import render_bisections_json

PROGRAM = """
UNSENDABLE = None

def step(x):
    return {"y": x * (2 if UNSENDABLE is None else 3)}
"""
X = np.ones(8, np.float32)
SAID = "`missed_state_program.UNSENDABLE` is not as in your process"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("missed")
    (folder / "missed_state_program.py").write_text(PROGRAM)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        patch.chdir(folder)
        module: Any = importlib.import_module("missed_state_program")
        module.UNSENDABLE = (one for one in "ab")
        yield module
        del sys.modules["missed_state_program"]


@pytest.fixture(scope="module")
def source(program: Any, shared_cache: Path) -> Source:
    live = make_live_function(program.step, (X,), {})
    return write_live_function(live, Cache(shared_cache), Path.cwd())


def test_opcheck_says_it(program: Any, shared_cache: Path) -> None:
    report = ligerdiag.opcheck(program.step, X, device="none", cache_directory=shared_cache)
    (said,) = [line for line in report.not_covered if SAID in line]
    assert not report.ok
    assert f"not covered: {said}" in str(report)


def test_bisect_says_it(source: Source, shared_cache: Path) -> None:
    options = api.BisectOptions(
        selectors=cast("Any", (source,)), axis=Axis.TARGETS, targets=("h100",), cache_directory=shared_cache, jobs=1
    )
    found = api.bisect(options)
    (said,) = [line for line in found[0].notes if SAID in line]
    assert said.startswith("not covered: ")
    assert said in str(found[0])
    assert json.loads(render_bisections_json(found))["bisections"][0]["notes"].count(said) == 1


def test_fix_says_it(source: Source, shared_cache: Path) -> None:
    checked = api.CheckOptions(selectors=(source,), replay=False, cache_directory=shared_cache, jobs=1)
    (found,) = find_fixes(FixOptions(check=checked))
    (said,) = [line for line in found.not_covered if SAID in line]
    assert f"\n  not covered: {said}\n" in render_fix(found, is_unsafe=False, is_written=False)
    assert said in json.loads(render_fixes_json((found,), written=set()))["fixes"][0]["not_covered"]
