"""Reads pairs of a program and a schedule as HLO text, with the expected verdicts.

A file of `pairs/` begins with a sentence that says what it shows. `// program` and `// schedule` replace the first line
of a module. A schedule may have a name (`// schedule: the reader first`) and a line `// buffers: h@0, f{1}@16` with
offsets in one allocation; a value that the line does not name gets its own bytes. The schedule ends with `// expect:
sums fresh, y stale`, which names the elements of the root. `// from a dump` says that the modules have our tags but
were not compiled here.

Consecutive lines `// either NAME: copied = pred[] copy(p); q = pred[] not(copied)` are alternatives. Each makes its own
case, in which its text replaces these lines. If the program has alternatives as well, they have the same names.

An instruction named `y_ld3` gets the op_name of an operation with tag 3, as in a module that XLA makes of a tagged
program. An instruction that a pass made may have the op_name but not the name; then its text gives the op_name. A
kernel is a custom call; `by_hand.EFFECTS` gives the effects of its target on the operands.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ligerdiag.analysis.context import Context
from ligerdiag.analysis.write_correspondence import TracedKernel
from ligerdiag.hlo.dataflow import Positions
from ligerdiag.hlo.module import HloComputation
from ligerdiag.hlo.parse import parse_hlo
from ligerdiag.hlo.shape import ShapeIndex, iterate_leaves
from ligerdiag.hlo.xla_pb2 import HloProto
from tests.analysis.by_hand import judge_modules
from tests.hlo.placing import place, read_text

FOLDER = Path(__file__).parent / "pairs"
_SECTION = re.compile(r"^// (program|schedule)\b:? *(.*)\n", re.MULTILINE)
_BUFFERS = re.compile(r"^// buffers: (.*)\n", re.MULTILINE)
_PLACE = re.compile(r"([^\s,@]+(?:\{[\d,]*\})?)@(\d+)")
_EXPECT = re.compile(r"^// expect: (.*)\n", re.MULTILINE)
_EITHER = re.compile(r"^ *// either ([^:]+): (.*)\n", re.MULTILINE)
_TAG = re.compile(r"_(ld\d+)\b")


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    sentence: str
    program: str
    schedule: str
    offsets: Mapping[str, int]
    """In bytes, by the name of the value."""
    canonicalized: bool
    """Whether the modules come from a dump."""
    expected: Mapping[str, str]
    """Verdicts by the names of the outputs, in the order of the outputs."""


@cache
def load_pairs(name: str) -> Mapping[str, Pair]:
    """Returns the pairs of a file by the names of the schedule and of the alternative."""
    sentence, *parts = _SECTION.split((FOLDER / f"{name}.hlo").read_text())
    kind, _, program, *schedules = parts
    assert kind == "program"
    pairs: dict[str, Pair] = {}
    for kind, label, text in zip(schedules[::3], schedules[1::3], schedules[2::3], strict=True):
        assert kind == "schedule"
        (expected,) = _EXPECT.findall(text)
        for alternative in dict(_EITHER.findall(text) or _EITHER.findall(program)) or ("",):
            found = ", ".join(one for one in (label, alternative) if one)
            assert found not in pairs, f"{name} has two schedules {found!r}"
            pairs[found] = Pair(
                sentence=" ".join(sentence.replace("//", "").split()),
                program=f"HloModule f\n{choose(program, alternative)}",
                schedule=f"HloModule f, is_scheduled=true\n{choose(text, alternative)}",
                offsets={value: int(at) for line in _BUFFERS.findall(text) for value, at in _PLACE.findall(line)},
                canonicalized="// from a dump\n" in text,
                expected={
                    output: verdict for output, _, verdict in (one.partition(" ") for one in expected.split(", "))
                },
            )
    return pairs


def choose(text: str, alternative: str) -> str:
    """Returns the text with the lines of this alternative and without those of the others."""
    return _EITHER.sub(lambda found: found[2].replace("; ", "\n") + "\n" if found[1] == alternative else "", text)


def judge_pair(name: str, label: str = "", *, traced: tuple[TracedKernel, ...] = ()) -> Context:
    """Judges a pair; `traced` lists the kernel calls seen in tracing."""
    pair = load_pairs(name)[label]
    return judge_modules(*read_pair(pair), *pair.expected, traced=traced, canonicalized=pair.canonicalized)


def read_pair(pair: Pair) -> tuple[bytes, bytes]:
    """Returns the program and the schedule, each an HloProto."""
    program, schedule = read_text(pair.program), HloProto.FromString(place(pair.schedule, pair.offsets))
    define_loop_state(schedule)
    return add_tags(program), add_tags(schedule)


def define_loop_state(proto: HloProto) -> None:
    """Adds logical buffers for loops and for the parameters of their bodies and conditions, as XLA does: none for an
    element that the body passes on unchanged.
    """
    module, buffers = parse_hlo(proto.SerializeToString())
    assert buffers is not None
    positions, assignment = Positions(module, buffers), proto.buffer_assignment
    for loop in [one for one in module.instructions if one.opcode == "while"]:
        called = [module.computations[number] for number in loop.called_computations]
        passed_on = find_passed_on(called[0])
        for state in (loop, *(one for computation in called for one in computation.parameters)):
            for index, number in zip(iterate_leaves(state.shape), positions.locate(state), strict=True):
                assert number is not None
                if index in passed_on:
                    continue
                same = buffers.slices[number]
                buffer = assignment.logical_buffers.add(id=len(assignment.logical_buffers) + 1, size=same.size)
                buffer.defined_at.instruction_id = state.id
                buffer.defined_at.shape_index.extend(index)
                allocation = next(one for one in assignment.buffer_allocations if one.index == same.allocation)
                allocation.assigned.add(logical_buffer_id=buffer.id, offset=same.offset, size=same.size)


def find_passed_on(body: HloComputation) -> set[ShapeIndex]:
    """Returns the elements of a loop's state that the body returns as it gets them."""
    next_state = body.root.operands if body.root.opcode == "tuple" else ()
    return {
        (number,)
        for number, one in enumerate(next_state)
        if one.opcode == "get-tuple-element"
        and one.operands[0] is body.parameters[0]
        and one.proto.tuple_index == number
    }


def add_tags(proto: HloProto) -> bytes:
    """Gives each instruction with a tag in its name an op_name with that tag, unless its text gives another."""
    for computation in proto.hlo_module.computations:
        for instruction in computation.instructions:
            found = _TAG.search(instruction.name)
            if found and not instruction.metadata.op_name:
                instruction.metadata.op_name = f"f/{instruction.opcode}#{found[1]}"
    return proto.SerializeToString()
