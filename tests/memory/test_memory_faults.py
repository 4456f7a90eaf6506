"""A fault of the memory analysis is a note and leaves the verdicts; a module with void donations alone is inspected."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ligerdiag import api
from ligerdiag.artifacts.artifact import load_artifact
from ligerdiag.hlo.parse import load_hlo
from ligerdiag.inspection import compilation
from ligerdiag.memory.memory_use import asks_in_place

PROGRAM = """\
import jax.numpy as jnp
from ligerdiag import Arg, Case


def total(x):
    return jnp.sin(x).sum()


CASE = Case(name="total", function=total, args=(Arg(shape=(256, 1024)),))
"""


@pytest.fixture(scope="module")
def directory(shared_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("faults") / "total.py"
    file.write_text(PROGRAM, encoding="utf-8")
    (case,) = api.check(api.CheckOptions(selectors=(str(file),), cache_directory=shared_cache, replay=False)).cases
    return Path(case.artifact)


def test_a_fault_is_a_note_and_leaves_the_verdicts(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: Any) -> None:
        raise ZeroDivisionError("no slices")

    monkeypatch.delenv("LIGERDIAG_DEBUG", raising=False)
    artifact = load_artifact(directory)
    expected = compilation.inspect_artifact(artifact, effects_cache=None)
    assert expected.memory is not None
    monkeypatch.setattr(compilation, "analyse_memory", fail)
    found = compilation.inspect_artifact(artifact, effects_cache=None)
    assert found.memory is None
    assert found.outputs == expected.outputs
    (note,) = found.coverage.not_covered
    assert note.startswith("copies and memory could not be analysed: ")
    assert "no slices" in note


def test_a_module_with_void_donations_alone_has_something_to_report(directory: Path) -> None:
    module, buffers = load_hlo(directory / "optimized.hlo.pb")
    assert buffers is not None
    assert not asks_in_place(module, buffers)
    assert asks_in_place(replace(module, donors=(0,)), buffers)
