"""The values that a kernel hits when it accesses bytes outside of its buffers."""

import pytest

from ligerdiag.hlo.buffers import name_hits
from ligerdiag.hlo.parse import parse_hlo
from ligerdiag.model.findings import LaunchNumbers, MemoryOperation, OutsideAccess
from tests.hlo.building import Builder

SIZE = 16
"""Bytes of each value."""


def find_hit(buffer: int, first_byte: int, *, in_loop: bool = False) -> str:
    """The arena holds in sequence: old, the operand, the output, and late, which reuses old's bytes."""
    builder = Builder()
    body = builder.computation("body")
    given = builder.add(body, "parameter")
    computation = builder.computation("main")
    parameter = builder.add(computation, "parameter")
    old = builder.add(computation, "negate", [parameter])
    operand = builder.add(computation, "negate", [parameter])
    if in_loop:
        call = builder.add(body, "custom-call", [given])
        builder.schedule(body)
        builder.add(computation, "call", [operand], calls=[body])
        builder.define(call, offset=2 * SIZE)
    else:
        call = builder.add(computation, "custom-call", [operand])
        builder.define(call, offset=2 * SIZE)
    late = builder.add(computation, "negate", [old])
    builder.schedule(computation)
    builder.define(parameter)
    builder.define(old, offset=0)
    builder.define(operand, offset=SIZE)
    builder.define(late, offset=0)
    module, buffers = parse_hlo(builder.bytes())
    assert buffers is not None
    access = OutsideAccess(
        kind=MemoryOperation.LOAD,
        buffer=buffer,
        size=SIZE,
        first_byte=first_byte,
        width=4,
        elements=1,
        program=0,
        line=None,
    )
    launch = LaunchNumbers(kernel="k", instruction=call.name, launches=1, outside=(access,))
    (named,) = name_hits([launch], module, buffers)
    hit = named.outside[0].hit
    return {old.name: "old", operand.name: "operand", call.name: "output", late.name: "late"}.get(hit, hit)


@pytest.mark.parametrize("in_loop", [False, True])
@pytest.mark.parametrize(
    ("buffer", "first_byte", "hit"),
    [
        (0, -4, "old"),
        (0, SIZE, "output"),
        (1, -4, "operand"),
        (1, SIZE, ""),
        (0, -SIZE - 4, ""),
    ],
    ids=["before the operand", "behind it", "before the output", "behind all", "before all"],
)
def test_the_last_value_that_has_the_bytes_before_the_call_is_hit(
    buffer: int, first_byte: int, hit: str, in_loop: bool
) -> None:
    assert find_hit(buffer, first_byte, in_loop=in_loop) == hit


def test_a_launch_within_its_buffers_hits_nothing() -> None:
    launch = LaunchNumbers(kernel="k", instruction="call", launches=1)
    module, buffers = parse_hlo(make_empty())
    assert buffers is not None
    assert name_hits([launch], module, buffers) == (launch,)


def make_empty() -> bytes:
    builder = Builder()
    computation = builder.computation("main")
    builder.define(builder.add(computation, "parameter"))
    return builder.bytes()
