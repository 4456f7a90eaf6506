"""Schedules that XLA would be free to make and does not happen to make here."""

from dataclasses import replace

import pytest

from ligerdiag.analysis.context import compute_context
from ligerdiag.analysis.evaluation.carriers import compute_carriers
from ligerdiag.analysis.provenance import Retagged
from ligerdiag.analysis.write_correspondence import DroppedBy, TracedKernel
from ligerdiag.effects.access import Access
from ligerdiag.hlo.parse import parse_hlo
from ligerdiag.hlo.xla_pb2 import HloComputationProto, HloInstructionProto
from tests.analysis.by_hand import Program, effects_of, judge, verdicts
from tests.hlo.building import array, tuple_of

PAIR = tuple_of(array(4), array(4))


def write_program(target: str = "double") -> Program:
    """h = -x; the kernel on h; y = |h|. Returns (what the kernel returns, y)."""
    program = Program()
    entry = program.computation("entry")
    x = program.op(entry, "parameter")
    h = program.op(entry, "negate", x, tag=1)
    sums = program.kernel(entry, h, tag=2, target=target)
    y = program.op(entry, "abs", h, tag=3)
    program.op(entry, "tuple", sums, y, shape=PAIR)
    return program


def write_schedule(
    order: str, target: str = "double", control: bool = False, h_at: tuple[int, int] = (0, 16)
) -> Program:
    """The same in the order given by letters: k(ernel), y; `control`: an edge from the first to the second."""
    schedule = Program()
    entry = schedule.computation("entry")
    x = schedule.op(entry, "parameter")
    h = schedule.op(entry, "negate", x, tag=1)
    schedule.define(x)
    schedule.define(h, offset=h_at[0], size=h_at[1])
    made = {}
    for letter in order:
        if letter == "k":
            made["k"] = schedule.kernel(entry, h, tag=2, target=target)
        else:
            made["y"] = schedule.op(entry, "abs", h, tag=3)
    if control:
        made[order[1]].control_predecessor_ids.append(made[order[0]].id)
    schedule.place(made["k"], made["y"])
    schedule.op(entry, "tuple", made["k"], made["y"], shape=PAIR)
    return schedule


@pytest.mark.parametrize(
    ("order", "control", "expected"),
    [("yk", False, "stale"), ("yk", True, "stale"), ("ky", False, "latent"), ("ky", True, "fresh")],
)
def test_the_order_decides_and_a_control_edge_forces_it(order: str, control: bool, expected: str) -> None:
    context = judge(write_program(), write_schedule(order, control=control), "sums", "y")
    assert verdicts(context) == ["fresh", expected]


def test_an_output_is_not_fresh_where_the_value_from_before_is_not_found_again() -> None:
    schedule = write_schedule("ky", control=True)
    for instruction in schedule.proto.hlo_module.computations[0].instructions:
        if instruction.opcode == "negate":
            instruction.metadata.op_name, instruction.name = "", "negate.1"
    assert verdicts(judge(write_program(), schedule, "sums", "y", canonicalized=True)) == ["fresh", "unknown"]


@pytest.mark.parametrize("order", ["ky", "yk"])
def test_a_kernel_of_unknown_effect_makes_all_that_it_may_touch_unknown(order: str) -> None:
    context = judge(write_program("opaque"), write_schedule(order, "opaque"), "sums", "y")
    assert verdicts(context) == ["unknown", "unknown"]


@pytest.mark.parametrize(("order", "expected"), [("key", "latent"), ("eky", "stale")])
def test_what_an_unknown_write_may_leave_is_not_certain(order: str, expected: str) -> None:
    def write(letters: str) -> Program:
        """e = exp(x) and c = cos(x); a kernel on x (k), e, and one (y) that reads e and may overwrite c."""
        program = Program()
        entry = program.computation("entry")
        x = program.op(entry, "negate", program.op(entry, "parameter"), tag=1)
        c = program.op(entry, "cosine", program.op(entry, "constant", tag=2), tag=3)
        made = [c, x]
        for letter in letters:
            match letter:
                case "k":
                    made.append(program.kernel(entry, x, tag=4))
                case "e":
                    made.append(e := program.op(entry, "exponential", x, tag=5))
                case _:
                    made.append(program.kernel(entry, c, e, tag=6, target="opaque"))
        program.place(*made)
        program.op(entry, "tuple", e, c, shape=PAIR)
        return program

    assert verdicts(judge(write("key"), write(order), "e", "c")) == [expected, "unknown"]


def test_a_kernel_that_only_reads_leaves_nothing_to_check() -> None:
    context = judge(write_program("sum"), write_schedule("yk", "sum"), "sums", "y")
    assert verdicts(context) == ["fresh", "fresh"]
    assert context.writes == ()
    assert len(context.calls) == 1


def test_a_declared_write_is_xlas_business() -> None:
    program, schedule = write_program(), write_schedule("yk")
    for builder in (program, schedule):
        for instruction in builder.proto.hlo_module.computations[0].instructions:
            if instruction.opcode == "custom-call":
                instruction.output_operand_aliasing.add(operand_index=0)
    assert judge(program, schedule, "sums", "y").writes == ()


def test_a_call_that_is_gone_has_not_happened() -> None:
    schedule = Program()
    entry = schedule.computation("entry")
    x = schedule.op(entry, "parameter")
    h = schedule.op(entry, "negate", x, tag=1)
    y = schedule.op(entry, "abs", h, tag=3)
    schedule.place(x, h, y)
    schedule.op(entry, "tuple", h, y, shape=PAIR)
    traced = TracedKernel(kernel="k", outputs=0, operands=1, source=None, in_program=False, operand_used_later=False)
    unused = TracedKernel(kernel="u", outputs=1, operands=1, source=None, in_program=False, operand_used_later=False)
    context = judge(write_program(), schedule, "sums", "y", traced=(traced, unused))
    assert verdicts(context)[1] == "stale"
    assert [(v.kernel, v.dropped_by) for v in context.vanished] == [("k", DroppedBy.JAX), ("double", DroppedBy.XLA)]


@pytest.mark.parametrize(
    ("outputs", "later", "hidden", "reported"),
    [
        (0, False, (), True),  # nothing but an effect can be wanted of it
        (1, True, (), False),  # it overwrites nothing, or declares it
        (1, True, (Access.READ_WRITE,), True),
        (1, False, (Access.READ_WRITE,), False),  # nothing reads what it overwrites
        (1, True, (Access.UNKNOWN,), True),
    ],
)
def test_a_missing_call_matters_where_it_has_no_outputs_or_overwrites_what_is_read(
    outputs: int, later: bool, hidden: tuple[Access, ...], reported: bool
) -> None:
    traced = TracedKernel(
        kernel="k", outputs=outputs, operands=1, source=None, in_program=False, operand_used_later=later, hidden=hidden
    )
    vanished = judge(write_program(), write_schedule("ky"), "sums", "y", traced=(traced,)).vanished
    assert [call.kernel for call in vanished] == (["k"] if reported else [])
    assert [call.unknown for call in vanished] == ([Access.UNKNOWN in hidden] if reported else [])


def test_a_call_that_the_program_does_not_hold_is_a_note() -> None:
    schedule = write_schedule("ky")
    entry = schedule.proto.hlo_module.computations[0]
    h = entry.instructions[1]
    stray = schedule.kernel(entry, h, tag=77)
    stray.backend_config = b"another"
    schedule.place(stray)
    entry.root_id = entry.instructions[4].id
    context = judge(write_program(), schedule, "sums", "y")
    assert any(stray.name in note for note in context.matching.notes)


def test_a_call_that_is_nobodys_is_a_write_of_the_module_that_holds_it() -> None:
    """Where tags are worked out: ids of one module say nothing about the other."""
    program, schedule = write_program(), write_schedule("ky")
    entry = schedule.proto.hlo_module.computations[0]
    stray = schedule.kernel(entry, entry.instructions[3], tag=77)
    stray.backend_config = b"another"
    schedule.place(stray)
    entry.root_id = entry.instructions[4].id
    schedule.schedule(entry)
    written, (optimized, buffers) = parse_hlo(program.bytes())[0], parse_hlo(schedule.bytes())
    assert buffers is not None
    tags = Retagged(program=written, optimized=replace(optimized, tags={}))
    context = compute_context(
        program=tags.program,
        optimized=tags.optimized,
        buffers=buffers,
        effects_of=effects_of,
        output_names=("sums", "y"),
        traced_calls=(),
        retagged=tags,
    )
    assert [write.unknown for write in context.writes] == [False, True]
    for write in context.writes:
        assert write.call in [i for c in write.module.computations.values() for i in c.instructions]
    assert compute_carriers(context.writes[1:]).paths == {}


def test_a_call_without_tags_is_known_by_its_payload() -> None:
    schedule = write_schedule("yk")
    for instruction in schedule.proto.hlo_module.computations[0].instructions:
        if instruction.opcode == "custom-call":
            instruction.metadata.op_name = ""
    context = judge(write_program(), schedule, "sums", "y")
    assert context.matching.missing == ()
    assert verdicts(context) == ["fresh", "stale"]


@pytest.mark.parametrize(("offset", "expected"), [(8, "clobbered"), (16, "fresh")])
def test_a_neighbour_that_shares_bytes_is_overwritten_too(offset: int, expected: str) -> None:
    # z is alive while the kernel runs, and (by a bug of the compiler's, say) part of its bytes are the operand's
    program, schedule = write_program(), Program()
    entry = program.proto.hlo_module.computations[0]
    z = program.op(entry, "sine", entry.instructions[0], tag=9)
    program.op(entry, "tuple", entry.instructions[2], z, shape=PAIR)
    entry = schedule.computation("entry")
    x = schedule.op(entry, "parameter")
    h, z = schedule.op(entry, "negate", x, tag=1), schedule.op(entry, "sine", x, tag=9)
    schedule.define(x)
    schedule.define(h, offset=0)
    schedule.define(z, offset=offset)
    sums = schedule.kernel(entry, h, tag=2)
    schedule.place(sums)
    schedule.op(entry, "tuple", sums, z, shape=PAIR)
    assert verdicts(judge(program, schedule, "sums", "z")) == ["fresh", expected]


def test_bytes_that_are_used_again_are_no_longer_overwritten_ones() -> None:
    # z is computed into the operand's bytes, long after the kernel: whoever reads it reads no hidden write
    program = write_program()
    entry = program.proto.hlo_module.computations[0]
    z = program.op(entry, "sine", entry.instructions[0], tag=9)
    program.op(entry, "tuple", entry.instructions[2], program.op(entry, "cosine", z, tag=10), shape=PAIR)
    schedule = Program()
    entry = schedule.computation("entry")
    x = schedule.op(entry, "parameter")
    h = schedule.op(entry, "negate", x, tag=1)
    schedule.define(x)
    schedule.define(h, offset=0)
    sums = schedule.kernel(entry, h, tag=2)
    z = schedule.op(entry, "sine", x, tag=9)
    schedule.define(z, offset=0)
    last = schedule.op(entry, "cosine", z, tag=10)
    schedule.place(sums, last)
    schedule.op(entry, "tuple", sums, last, shape=PAIR)
    assert verdicts(judge(program, schedule, "sums", "last")) == ["fresh", "fresh"]


@pytest.mark.parametrize("pair", ["async", "copy", "all-reduce"])
def test_a_kernel_that_runs_while_its_operand_is_being_read_is_never_fresh(pair: str) -> None:
    # started before the kernel, done after it: nobody knows what is read. One that wants the result begins too early in
    # any case; one that wants the original may get it
    schedule = Program()
    if pair == "async":
        callee = schedule.computation("callee")
        inner = schedule.op(callee, "parameter")
        schedule.define(schedule.op(callee, "abs", inner, tag=3))
    entry = schedule.computation("entry")
    x = schedule.op(entry, "parameter")
    h = schedule.op(entry, "negate", x, tag=1)
    if pair == "async":
        shape = tuple_of(tuple_of(array(4)), array(4))
        start = schedule.op(entry, "async-start", h, shape=shape, calls=[callee])
    elif pair == "copy":
        start = schedule.op(entry, "copy-start", h, shape=PAIR, tag=3)
        schedule.define(start, 0)
    else:
        start = schedule.op(entry, "all-reduce-start", h, tag=3)
        schedule.define(start)
    sums = schedule.kernel(entry, h, tag=2)
    done = schedule.op(entry, f"{pair}-done", start, tag="" if pair == "async" else 3)
    schedule.place(x, h, sums)
    schedule.op(entry, "tuple", sums, done, shape=PAIR)

    before = Program()  # the reader wants the original: y = |h| stands before the kernel
    entry = before.computation("entry")
    x = before.op(entry, "parameter")
    h = before.op(entry, "negate", x, tag=1)
    y = before.op(entry, "abs", h, tag=2)
    sums = before.kernel(entry, h, tag=3)
    before.op(entry, "tuple", sums, y, shape=PAIR)
    assert verdicts(judge(write_program(), schedule, "sums", "y"))[1] == "stale"
    for computation in schedule.proto.hlo_module.computations:
        for instruction in computation.instructions:
            swapped = {"#ld2": "#ld3", "#ld3": "#ld2"}
            name = instruction.metadata.op_name
            instruction.metadata.op_name = name[:-4] + swapped.get(name[-4:], name[-4:])
    assert verdicts(judge(before, schedule, "sums", "y"))[1] == "unknown"


def test_a_kernel_inside_a_fusion_overwrites_the_part_that_it_is_given() -> None:
    # the fusion hands the kernel an address inside h: y reads a value that is new in part, and old in part
    schedule = Program()
    fused = schedule.computation("fused")
    fused.is_fusion_computation = True
    given = schedule.op(fused, "parameter")
    part = schedule.op(fused, "slice", given)
    schedule.kernel(fused, part, tag=2)
    entry = schedule.computation("entry")
    x = schedule.op(entry, "parameter")
    h = schedule.op(entry, "negate", x, tag=1)
    fusion = schedule.op(entry, "fusion", h, calls=[fused])
    y = schedule.op(entry, "abs", h, tag=3)
    schedule.place(x, h, fusion, y)
    schedule.op(entry, "tuple", fusion, y, shape=PAIR)
    context = judge(write_program(), schedule, "sums", "y")
    (write,) = context.actual.writes
    assert write.partial
    assert verdicts(context) == ["fresh", "stale"]
    assert {context.optimized.entry.instructions[1].id} == {
        i for i, defined in context.buffers.definitions.items() for _, n in defined if n in write.slices
    }


def take(
    program: Program, computation: HloComputationProto, whole: HloInstructionProto, start: int
) -> HloInstructionProto:
    """Four of the eight elements, the carrier of what the kernel overwrites."""
    part = program.op(computation, "slice", whole, tag=4)
    part.slice_dimensions.add(start=start, limit=start + 4, stride=1)
    return part


@pytest.mark.parametrize(("late", "start", "found"), [(True, 0, "latent"), (True, 4, "stale"), (False, 0, "stale")])
def test_a_slice_of_the_very_part_that_a_kernel_overwrote_is_what_the_kernel_left(
    late: bool, start: int, found: str
) -> None:
    """XLA takes the part anew for whoever reads it: behind the kernel that is right by luck, before it is not."""
    program = Program()
    entry = program.computation("entry")
    x = program.op(entry, "parameter", shape=array(8))
    h = program.op(entry, "negate", x, tag=1, shape=array(8))
    part = take(program, entry, h, 0)
    sums = program.kernel(entry, part, tag=2)
    whole = program.op(entry, "abs", h, tag=3, shape=array(8))
    program.op(entry, "tuple", sums, part, whole, shape=tuple_of(array(4), array(4), array(8)))

    schedule = Program()
    fused = schedule.computation("fused")
    fused.is_fusion_computation = True
    given = schedule.op(fused, "parameter", shape=array(8))
    schedule.kernel(fused, take(schedule, fused, given, 0), tag=2)
    entry = schedule.computation("entry")
    x = schedule.op(entry, "parameter", shape=array(8))
    h = schedule.op(entry, "negate", x, tag=1, shape=array(8))
    early = None if late else take(schedule, entry, h, start)
    fusion = schedule.op(entry, "fusion", h, calls=[fused])
    again = early or take(schedule, entry, h, start)
    whole = schedule.op(entry, "abs", h, tag=3, shape=array(8))
    schedule.place(x, h, again, fusion, whole)
    schedule.op(entry, "tuple", fusion, again, whole, shape=tuple_of(array(4), array(4), array(8)))
    assert verdicts(judge(program, schedule, "sums", "part", "whole")) == ["fresh", found, "clobbered"]
