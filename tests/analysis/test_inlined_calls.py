"""Calls are inlined as XLA will inline them: each gets its own instructions, with the tag of the call first."""

from ligerdiag.bisect.synthetic_schedules import inline_calls
from ligerdiag.hlo.aliasing import build_must_alias_buffers
from ligerdiag.hlo.dataflow import Positions
from ligerdiag.hlo.module import HloModule
from ligerdiag.hlo.parse import parse_hlo
from tests.analysis.by_hand import Program
from tests.hlo.building import array, tuple_of


def write_two_calls() -> HloModule:
    """Returns a module that calls f, a loop around a negation, twice; `abs` has a control edge from the first call."""
    module = Program()
    body = module.computation("body")
    module.op(body, "negate", module.op(body, "parameter"), tag=4)
    condition = module.computation("condition")
    module.op(condition, "compare", module.op(condition, "parameter"), tag=5)
    function = module.computation("f")
    module.op(function, "while", module.op(function, "parameter"), calls=[body, condition], tag=3)
    entry = module.computation("entry")
    x = module.op(entry, "parameter")
    first = module.op(entry, "call", x, calls=[function], tag=1)
    second = module.op(entry, "call", first, calls=[function], tag=2)
    last = module.op(entry, "abs", x, tag=6)
    last.control_predecessor_ids.append(first.id)
    module.op(entry, "tuple", second, last, shape=tuple_of(array(4), array(4)))
    return parse_hlo(module.bytes())[0]


def test_a_module_without_calls_is_returned_unchanged() -> None:
    module = Program()
    entry = module.computation("entry")
    module.op(entry, "negate", module.op(entry, "parameter"), tag=1)
    parsed = parse_hlo(module.bytes())[0]
    assert inline_calls(parsed) is parsed


def test_each_call_gets_its_own_instructions_with_the_tag_of_the_call_first() -> None:
    inlined = inline_calls(write_two_calls())
    everything = [i for c in inlined.computations.values() for i in c.instructions]
    assert len({i.id for i in everything}) == len(everything)
    assert not [i for i in everything if i.opcode == "call"]
    loops = [i for i in inlined.entry.instructions if i.opcode == "while"]
    assert [inlined.find_tag_path(loop) for loop in loops] == [(1, 3), (2, 3)]
    assert loops[1].operands == (loops[0],)
    bodies = [inlined.computations[loop.called_computations[0]] for loop in loops]
    assert [inlined.find_tag_path(body.root) for body in bodies] == [(1, 4), (2, 4)]
    assert bodies[0] is not bodies[1]


def test_a_control_edge_from_a_call_leads_to_what_the_call_returns() -> None:
    inlined = inline_calls(write_two_calls())
    (last,) = [i for i in inlined.entry.instructions if i.opcode == "abs"]
    (first,) = [i for i in inlined.entry.instructions if inlined.find_tag_path(i) == (1, 3)]
    assert last.control_predecessors == (first.id,)


def test_two_calls_share_no_storage_in_the_callee() -> None:
    """Without inlining, both calls would share the one loop in `f`."""
    inlined = inline_calls(write_two_calls())
    positions = Positions(inlined, build_must_alias_buffers(inlined))
    x = inlined.entry.parameters[0]
    first, second = (i for i in inlined.entry.instructions if i.opcode == "while")
    assert positions.locate(first) == positions.locate(x)
    assert (
        inlined.computations[first.called_computations[0]].parameters[0]
        is not (inlined.computations[second.called_computations[0]].parameters[0])
    )
