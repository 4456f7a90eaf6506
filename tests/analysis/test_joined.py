"""`programs/joined.py`: values that XLA computes together are judged separately.

By hand: the loss comes from the kernels alone, and each kernel gets its own operand, so the loss is right in all
programs. For the other outputs the replayed numbers decide: no right output is called wrong, and no wrong one right.
"""

from collections.abc import Mapping
from pathlib import Path

import pytest

from ligerdiag import api
from ligerdiag.analysis.evaluation.pieces import Pieces, follow_pieces
from ligerdiag.hlo.parse import parse_hlo
from ligerdiag.model.findings import Attribution, Verdict
from ligerdiag.model.report import CaseReport
from tests.hlo.building import Builder, array

PROGRAMS = Path(__file__).parent / "programs" / "joined.py"
RIGHT, WRONG = {Verdict.FRESH, Verdict.LATENT}, {Verdict.STALE, Verdict.CLOBBERED}


@pytest.fixture(scope="module")
def reports(shared_cache: Path) -> Mapping[str, CaseReport]:
    options = api.CheckOptions(selectors=(str(PROGRAMS),), cache_directory=shared_cache)
    return {case.id: case for case in api.check(options).cases}


def test_the_loss_is_right_in_all_programs(reports: Mapping[str, CaseReport]) -> None:
    assert len(reports) == 12
    assert {name: report.outputs["loss"] for name, report in reports.items()} == dict.fromkeys(reports, Verdict.FRESH)


def test_an_output_is_called_wrong_exactly_if_its_numbers_are_wrong(reports: Mapping[str, CaseReport]) -> None:
    seen: dict[bool, int] = {True: 0, False: 0}
    for name, report in reports.items():
        assert report.replay is not None, name
        for output, verdict in report.outputs.items():
            is_right = report.replay.outputs[output].attribution is Attribution.FRESH
            assert verdict in (RIGHT if is_right else WRONG), (name, output, verdict)
            seen[is_right] += 1
    assert min(seen.values()) > 6, seen


def reinterpret(opcode: str, before: Pieces, layout: tuple[int, ...], shape: tuple[int, ...]) -> object:
    """Returns the pieces after a bitcast or a reshape to a row-major `shape`; `layout` is the operand's minor_to_major."""
    builder = Builder()
    entry = builder.computation("entry")
    operand = builder.add(entry, "parameter", shape=array(*before.shape))
    operand.shape.layout.minor_to_major[:] = layout
    builder.add(entry, opcode, [operand], shape=array(*shape))
    return follow_pieces(parse_hlo(builder.bytes())[0].entry.root, [before])


HALVES = Pieces((64, 8), 0, (32, 64), (1, 2))


@pytest.mark.parametrize(
    ("opcode", "layout", "shape", "expected"),
    [
        ("bitcast", (0, 1), (8, 64), Pieces((8, 64), 1, (32, 64), (1, 2))),  # transposed in memory
        ("bitcast", (1, 0), (1, 64, 8), Pieces((1, 64, 8), 1, (32, 64), (1, 2))),
        ("reshape", (0, 1), (512,), Pieces((512,), 0, (256, 512), (1, 2))),  # by indices, not by memory
        ("reshape", (1, 0), (2, 32, 8), Pieces((2, 32, 8), 0, (1, 2), (1, 2))),
        ("reshape", (1, 0), (4, 16, 8), Pieces((4, 16, 8), 0, (2, 4), (1, 2))),
        ("bitcast", (1, 0), (8, 64), Pieces((8, 64), 0, (4, 8), (1, 2))),  # other rows, the same halves
        ("reshape", (1, 0), (1, 512), Pieces((1, 512), 1, (256, 512), (1, 2))),
        ("reshape", (1, 0), (0,), None),
    ],
)
def test_pieces_are_followed_into_another_shape(
    opcode: str, layout: tuple[int, ...], shape: tuple[int, ...], expected: Pieces | None
) -> None:
    assert reinterpret(opcode, HALVES, layout, shape) == expected


def test_pieces_that_another_shape_splits_are_not_followed() -> None:
    thirds = Pieces((6, 4), 0, (2, 4, 6), (1, 2, 4))
    assert reinterpret("reshape", thirds, (1, 0), (2, 12)) is None
    inner = Pieces((6, 4), 1, (2, 4), (1, 2))
    assert reinterpret("reshape", inner, (1, 0), (24,)) is None
