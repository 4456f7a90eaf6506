"""Which values share bytes while they are alive: schedules with a buffer assignment by hand, the answer beside each.

`T` is f32[8] (32 bytes). A place is an offset in one allocation; what has none has bytes of its own, and what must share
storage by XLA's rules has one place. Each entry: the pairs as `lost<other`, and the outputs that are wrong.
"""

import re
from time import process_time

import pytest

from ligerdiag.hlo.aliasing import build_must_alias_buffers, find_buffer_fault
from ligerdiag.hlo.parse import parse_hlo, parse_hlo_module
from ligerdiag.hlo.shape import render_index
from ligerdiag.hlo.shared_bytes import SharedBytes, find_shared_bytes
from tests.hlo.overwriting_schedules import OVER_AN_OPERAND
from tests.hlo.placing import place, read_text
from tests.hlo.sharing_schedules import HEAD, MISSING_COPY, ONE_OUTPUT, TWO_RESULTS

KINDS = {
    "two results": TWO_RESULTS,
    "one output": ONE_OUTPUT,
    "missing copy": MISSING_COPY,
    "over an operand": OVER_AN_OPERAND,
}
ENTRIES = [pytest.param(entry, id=name) for kind in KINDS.values() for name, entry in kind.items()]


def complete(body: str, attributes: str = "") -> str:
    """Returns the module, with the computations above that it calls; attributes: of the module, after a comma."""
    parts = [part for part in re.split(r"(?m)^(?=\w+ \{)", HEAD) if part.strip()]
    used = "".join(part for part in parts if re.search(rf"=\s*{part.split()[0]}\b", body))
    return re.sub(r"\bT\b", "f32[8]", f"HloModule m, is_scheduled=true{attributes}\n{used}{body}")


def describe(pairs: tuple[SharedBytes, ...]) -> str:
    def name(position: tuple[object, tuple[int, ...]]) -> str:
        return f"{getattr(position[0], 'name')}{render_index(position[1]) if position[1] else ''}"  # noqa: B009

    found = sorted(f"{name(one.lost)}<{name(one.other)}" for one in pairs)
    outputs = sorted({output for one in pairs for output in one.outputs})
    return f"{' '.join(found)}: {' '.join(map(str, outputs))}".rstrip() if pairs else ""


@pytest.mark.parametrize("entry", ENTRIES)
def test_the_pairs_and_the_outputs(entry: tuple[str, ...]) -> None:
    body, offsets, expected, *attributes = entry
    assert isinstance(offsets, dict)
    module, buffers = parse_hlo(place(complete(body, *attributes), offsets))
    assert buffers is not None
    assert find_buffer_fault(module, buffers) == ""
    assert describe(find_shared_bytes(module, buffers)) == expected


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
def test_xlas_rules_alone_tell_what_must_share_bytes(name: str) -> None:
    body, _, expected = next(kind[name] for kind in KINDS.values() if name in kind)
    module = parse_hlo_module(read_text(complete(body)).hlo_module.SerializeToString())
    buffers = build_must_alias_buffers(module, ambiguous=True)
    assert describe(find_shared_bytes(module, buffers, is_assigned=False)) == expected


@pytest.mark.parametrize("entry", ENTRIES)
def test_bytes_of_ones_own_are_shared_by_nobody(entry: tuple[str, ...]) -> None:
    """Of the values that need not share them; those that must do so without an assignment, too."""
    body, _, expected, *attributes = entry
    module = parse_hlo_module(read_text(complete(body, *attributes)).hlo_module.SerializeToString())
    buffers = build_must_alias_buffers(module, ambiguous=True)
    assert describe(find_shared_bytes(module, buffers, is_assigned=False)) in ("", expected)


def test_eight_times_the_instructions_take_no_more_than_some_ten_times_as_long() -> None:
    """Each reads the one before it and stands in one of three places by turns."""

    def measure(count: int) -> float:
        lines = [f"  v{n} = T negate(v{n - 1})" for n in range(1, count)]
        body = "\n".join(
            ["ENTRY e {", "  p = T parameter(0)", "  v0 = T abs(p)", *lines, f"  ROOT o = T sine(v{count - 1})", "}"]
        )
        module, buffers = parse_hlo(place(complete(body), {f"v{n}": 32 * (n % 3) for n in range(count)}))
        assert buffers is not None
        started = process_time()
        assert find_shared_bytes(module, buffers) == ()
        return process_time() - started

    assert measure(16_000) < 8 * 4 * measure(2_000)
