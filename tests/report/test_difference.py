"""A difference as text and as JSON, from hand-made records."""

import json
from dataclasses import replace
from typing import Any

import jsonschema
import pytest

from ligerdiag.analysis.explain.drift import ChangeKind
from ligerdiag.cli.exit_codes import compute_difference_code
from ligerdiag.model.findings import Verdict
from ligerdiag.model.memory import MemoryUse
from ligerdiag.model.report import Coverage, Status
from ligerdiag.model.schedule_view import Fate, Neighbourhood, Origin, ReadTime
from ligerdiag.report.comparisons import ComparedSide as Compile
from ligerdiag.report.comparisons import Difference, DifferenceReport, compute_difference
from ligerdiag.report.json import render_differences_json
from ligerdiag.report.terminal.full_report import render_difference_report
from tests.analysis.neighbourhoods_by_hand import make_neighbourhood, make_reader
from tests.report.samples import IN_PLACE, make_case, make_memory
from tools.json_schema import load_schema


def make_difference(
    first: tuple[Neighbourhood, ...],
    second: tuple[Neighbourhood, ...],
    verdict: Verdict = Verdict.STALE,
    memory: tuple[MemoryUse | None, MemoryUse | None] = (None, None),
    **changes: Any,
) -> Difference:
    sides = [
        Compile(
            label=label,
            report=make_case(
                "step",
                target=label,
                outputs={"w": word},
                neighbourhoods=writes,
                coverage=Coverage(),
                memory=use,
                **changes,
            ),
        )
        for label, word, writes, use in (
            ("a100", Verdict.LATENT, first, memory[0]),
            ("h100", verdict, second, memory[1]),
        )
    ]
    return compute_difference("step", *sides)


MOVED = make_difference(
    (make_neighbourhood(make_reader(within=""), make_reader("mul", opcode="multiply")),),
    (make_neighbourhood(make_reader(side=ReadTime.BEFORE, within="fusion to `add`"), copied_by=("copy",)),),
)
SAME = make_difference((make_neighbourhood(make_reader()),), (make_neighbourhood(make_reader()),), Verdict.LATENT)
FAILED = make_difference((), (), status=Status.ERROR, error="aborted \x1b[31m")
UNPLACED = make_difference((make_neighbourhood(fate=Fate.UNPLACED),), (make_neighbourhood(fate=Fate.UNPLACED),))
NEW = make_difference((), (make_neighbourhood(make_reader(origin=Origin.RECOMPUTED, source=None)),))
GREW = make_difference((), (), Verdict.LATENT, (IN_PLACE, make_memory(peak=41 << 20)))
ONE_SIDE = make_difference((), (), Verdict.LATENT, (None, make_memory()))
REPORTS = {
    "memory": DifferenceReport(differences=(GREW, ONE_SIDE)),
    "moved": DifferenceReport(differences=(MOVED,), notes=("a note",)),
    "same": DifferenceReport(differences=(SAME,)),
    "failed": DifferenceReport(differences=(FAILED,)),
    "unplaced": DifferenceReport(differences=(UNPLACED,)),
    "new": DifferenceReport(differences=(NEW, SAME)),
    "nothing": DifferenceReport(differences=(), interrupted=True),
}


def show(*differences: Difference, width: int | None = None, verbose: bool = False) -> list[str]:
    return render_difference_report(
        DifferenceReport(differences=differences), width=width, verbose=verbose
    ).splitlines()


def test_rows_that_differ_are_marked_and_the_others_are_not() -> None:
    lines = show(MOVED)
    assert "* w       latent  STALE" in lines
    assert "* dot_general (train.py:41)  after  before, in a fusion to `add`" in lines
    assert "* mul (train.py:41)          after  -" in lines
    assert "* copied by  nothing  copy" in lines
    assert not any(line.startswith("*") for line in show(SAME))


def test_a_difference_lists_changes_that_matter_and_with_verbose_the_others() -> None:
    moved = "   moved: `dot_general` (train.py:41) moved from after to before the kernel"
    assert moved in show(MOVED)
    fusion = "   fusion: `dot_general` (train.py:41) was alone and is in a fusion to `add`"
    assert fusion not in show(MOVED)
    assert fusion in show(MOVED, verbose=True)


def test_a_difference_that_is_too_wide_has_a_line_for_each_side() -> None:
    lines = show(MOVED, width=40)
    assert max(map(len, lines)) <= 60
    assert "    a100: after" in lines
    assert "    h100: before, in a fusion to `add`" in lines


def test_a_side_that_could_not_be_analysed_is_named_and_counted() -> None:
    lines = show(FAILED, SAME)
    assert "could not analyse a100: aborted" in [line.rstrip() for line in lines]
    assert lines[-1].endswith("1 could not be analysed")
    assert not FAILED.differs
    assert not any("\x1b" in line for line in lines)


def test_a_write_whose_place_is_unknown_is_not_covered() -> None:
    assert "not covered: a100: the time at which `ce_kernel` operand 0 is written is unknown" in show(UNPLACED)


def test_a_call_on_only_one_side_differs() -> None:
    assert NEW.differs
    assert {change.kind for change in NEW.changes} == {ChangeKind.VERDICT, ChangeKind.KERNEL}
    assert "   kernel: the hidden write is new" in show(NEW)


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS.keys())
def test_json_matches_its_schema(report: DifferenceReport) -> None:
    schema = load_schema()
    own = {"$schema": schema["$schema"], "$defs": schema["$defs"], "$ref": "#/$defs/differences"}
    text = render_differences_json(report, exit_code=1)
    assert text.isascii()
    top = json.loads(text)
    assert list(jsonschema.Draft202012Validator(own).iter_errors(top)) == []
    top["differences"].append({"name": "x"})
    assert not jsonschema.Draft202012Validator(own).is_valid(top)


def test_json_has_the_memory_of_both_sides_and_its_change() -> None:
    top = json.loads(render_differences_json(DifferenceReport(differences=(GREW, ONE_SIDE, SAME))))
    grew, one_side, same = (one["memory"] for one in top["differences"])
    mib = 1 << 20
    assert grew[0] == {"figure": "peak", "first": 33 * mib, "second": 41 * mib, "change": 8 * mib}
    assert grew[2] == {"figure": "copied", "first": 0, "second": 16 * mib, "change": 16 * mib}
    assert one_side[0] == {"figure": "peak", "first": None, "second": 33 * mib, "change": None}
    assert same == []


def test_other_memory_alone_is_no_difference_that_matters() -> None:
    assert not GREW.differs
    plain = make_difference((), (), Verdict.LATENT)
    codes = [compute_difference_code(DifferenceReport(differences=(one,))) for one in (GREW, plain)]
    assert codes[0] is codes[1]
    assert show(GREW)[-1].endswith(
        "0 with other verdicts or readers, 1 without a difference that matters, 1 with other memory"
    )


def test_memory_that_differs_is_shown_with_its_change() -> None:
    text = "\n".join(line.rstrip() for line in show(GREW))
    assert (
        """
  memory         a100      h100
* peak           33.0 MiB  41.0 MiB (+8.0 MiB)
  temporaries    1.5 MiB   1.5 MiB
* copied a call  0 bytes   16.0 MiB (+16.0 MiB)
"""
        in text
    )


def test_equal_or_little_memory_is_shown_with_verbose_alone() -> None:
    equal = make_difference((), (), Verdict.LATENT, (IN_PLACE, IN_PLACE))
    little = [replace(IN_PLACE, peak=size, temporaries=size) for size in (512, 1024)]
    for one in (equal, make_difference((), (), Verdict.LATENT, (little[0], little[1]))):
        assert not any("peak" in line or "other memory" in line for line in show(one))
        assert any("peak" in line for line in show(one, verbose=True))
    assert not any("peak" in line for line in show(SAME, verbose=True))


def test_a_side_without_memory_has_a_dash() -> None:
    assert "  peak           -     33.0 MiB" in show(ONE_SIDE, verbose=True)
