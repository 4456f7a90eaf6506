"""Values that share bytes while they are alive: the schedules of `sharing/`, with buffer assignments and answers.

`// schedule: NAME` replaces the first line of a module, unless that line has more attributes. `// buffers` gives
offsets in one allocation; a value that it does not name has its own bytes, and values that must share storage by XLA's
rules share it. `// expect` lists the pairs as `lost<other`, then the numbers of the outputs that are wrong.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import process_time

import pytest

from ligerdiag.hlo.aliasing import build_must_alias_buffers, find_buffer_fault
from ligerdiag.hlo.parse import parse_hlo, parse_hlo_module
from ligerdiag.hlo.shape import render_index
from ligerdiag.hlo.shared_bytes import SharedBytes, find_shared_bytes
from tests.hlo.placing import place, read_text

FOLDER = Path(__file__).parent / "sharing"
HEADER = "HloModule m, is_scheduled=true\n"
_PART = re.compile(r"^// (schedule|buffers|expect): (.*)\n", re.MULTILINE)
_PLACE = re.compile(r"(\w+(?:\{\d+\})?)@(\d+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Schedule:
    text: str
    offsets: dict[str, int]
    expected: str


def load_schedules() -> Iterator[tuple[str, Schedule]]:
    for file in sorted(FOLDER.glob("*.hlo")):
        for part in re.split(r"(?=^// schedule: )", file.read_text(), flags=re.MULTILINE)[1:]:
            parts = dict[str, str](_PART.findall(part))
            text = _PART.sub("", part)
            yield (
                parts["schedule"],
                Schedule(
                    text=text if text.startswith("HloModule") else HEADER + text,
                    offsets={value: int(at) for value, at in _PLACE.findall(parts.get("buffers", ""))},
                    expected=parts["expect"],
                ),
            )


SCHEDULES = dict(load_schedules())
ENTRIES = [pytest.param(schedule, id=name) for name, schedule in SCHEDULES.items()]


def describe(pairs: tuple[SharedBytes, ...]) -> str:
    def name(position: tuple[object, tuple[int, ...]]) -> str:
        return f"{getattr(position[0], 'name')}{render_index(position[1]) if position[1] else ''}"  # noqa: B009

    found = sorted(f"{name(one.lost)}<{name(one.other)}" for one in pairs)
    outputs = sorted({output for one in pairs for output in one.outputs})
    return f"{' '.join(found)}: {' '.join(map(str, outputs))}".rstrip() if pairs else "nothing"


@pytest.mark.parametrize("schedule", ENTRIES)
def test_a_schedule_has_the_expected_pairs_and_outputs(schedule: Schedule) -> None:
    module, buffers = parse_hlo(place(schedule.text, schedule.offsets))
    assert buffers is not None
    assert find_buffer_fault(module, buffers) == ""
    assert describe(find_shared_bytes(module, buffers)) == schedule.expected


MUST_SHARE = [
    "a call writes over a value that is read later",
    "a dynamic-update-slice",
    "a fusion that updates in place, the old value behind a bitcast",
    "the start of a loop is read after it",
    "two updates of one array, as in jax issue 39100",
    "two operands declared to be one output",
    "one operand, and two outputs declared to be it",
    "in a branch",
]


@pytest.mark.parametrize("name", MUST_SHARE)
def test_xlas_rules_alone_give_the_values_that_must_share_bytes(name: str) -> None:
    schedule = SCHEDULES[name]
    module = parse_hlo_module(read_text(schedule.text).hlo_module.SerializeToString())
    buffers = build_must_alias_buffers(module, ambiguous=True)
    assert describe(find_shared_bytes(module, buffers, is_assigned=False)) == schedule.expected


@pytest.mark.parametrize("schedule", ENTRIES)
def test_values_that_need_not_share_bytes_do_not(schedule: Schedule) -> None:
    """Without an assignment, only values that must share bytes do so."""
    module = parse_hlo_module(read_text(schedule.text).hlo_module.SerializeToString())
    buffers = build_must_alias_buffers(module, ambiguous=True)
    assert describe(find_shared_bytes(module, buffers, is_assigned=False)) in ("nothing", schedule.expected)


def test_the_time_is_about_proportional_to_the_number_of_instructions() -> None:
    """Each instruction reads the one before it, and the values take turns in three places."""

    def measure(count: int) -> float:
        lines = [f"  v{n} = f32[8] negate(v{n - 1})" for n in range(1, count)]
        root = f"  ROOT o = f32[8] sine(v{count - 1})"
        body = "\n".join(["ENTRY e {", "  p = f32[8] parameter(0)", "  v0 = f32[8] abs(p)", *lines, root, "}"])
        module, buffers = parse_hlo(place(HEADER + body, {f"v{n}": 32 * (n % 3) for n in range(count)}))
        assert buffers is not None
        started = process_time()
        assert find_shared_bytes(module, buffers) == ()
        return process_time() - started

    assert measure(16_000) < 8 * 4 * measure(2_000)
