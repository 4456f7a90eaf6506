"""Flags of XLA that a case has of its own: they are checked, and each report says that the program needs them, too."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ligerdiag import Case
from ligerdiag.api import CheckOptions, check
from ligerdiag.api.judging import list_own_flags
from ligerdiag.artifacts.artifact import load_artifact
from ligerdiag.errors import InputError
from ligerdiag.model.jobs import CaseSpec, Source

SPEC = CaseSpec(id="mine", name="mine", params=(), source=Source(root="/"), mesh={}, expected=None, about="", draws="")
PROGRAM = """\
from ligerdiag import Arg, Case

CASE = Case(
    name="mine", function=lambda x: 2 * x, args=(Arg(shape=8),), xla_flags={"xla_gpu_enable_latency_hiding_scheduler": True}
)
"""


@pytest.mark.parametrize("flags", [("xla_a",), {"a": 1}, {"xla_a": None}, {1: 2}])
def test_a_flag_has_a_name_and_a_plain_value(flags: Any) -> None:
    with pytest.raises(InputError, match="expected xla_flags to be a mapping of names such as"):
        Case(name="mine", function=print, args=(), xla_flags=flags)


def test_cases_with_the_same_flags_have_one_note() -> None:
    first = replace(SPEC, xla_flags={"xla_b": False, "xla_a": "x,y"})
    specs = [SPEC, first, replace(first, id="other"), first, replace(SPEC, xla_flags={"xla_c": 2})]
    assert list_own_flags(specs) == (
        "`mine` and `other`: compiled with `XLA_FLAGS=--xla_a=x,y --xla_b=false`, which the program needs where it runs",
        "`mine`: compiled with `XLA_FLAGS=--xla_c=2`, which the program needs where it runs",
    )


def test_xla_gets_the_flags_of_the_case(shared_cache: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(PROGRAM, encoding="utf-8")
    report = check(CheckOptions(selectors=(str(path),), cache_directory=shared_cache))
    provenance = load_artifact(Path(report.cases[0].artifact)).provenance
    assert provenance.flags["xla_gpu_enable_latency_hiding_scheduler"] is True
    assert "xla_gpu_enable_latency_hiding_scheduler=true" in "".join(report.notes)
    plain = path.read_text(encoding="utf-8").replace(
        ', xla_flags={"xla_gpu_enable_latency_hiding_scheduler": True}', ""
    )
    path.write_text(plain, encoding="utf-8")
    report = check(CheckOptions(selectors=(str(path),), cache_directory=shared_cache))
    assert not any("XLA_FLAGS" in note for note in report.notes)
    flags = load_artifact(Path(report.cases[0].artifact)).provenance.flags
    assert "xla_gpu_enable_latency_hiding_scheduler" not in flags
