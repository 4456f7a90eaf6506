"""Where originals start, which operation is blamed, and what a merged instruction stands for."""

from ligerdiag.analysis.evaluated_pair import is_named_after
from ligerdiag.analysis.evaluation.carriers import Carriers, compute_carriers
from ligerdiag.analysis.write_correspondence import compute_tag_coverage
from ligerdiag.analysis.writes import find_hidden_writes
from ligerdiag.hlo.parse import parse_hlo
from ligerdiag.hlo.xla_pb2 import HloComputationProto, HloInstructionProto
from ligerdiag.model.schedule_view import Place
from tests.analysis.by_hand import Program, effects_of, judge, verdicts
from tests.hlo.building import Builder, array, find, tuple_of

PAIR = tuple_of(array(4), array(4))


def carriers(program: Program) -> Carriers:
    module, _ = parse_hlo(program.bytes())
    return compute_carriers(find_hidden_writes(module, effects_of))


def start(program: Program) -> tuple[HloComputationProto, HloInstructionProto]:
    entry = program.computation("entry")
    return entry, program.op(entry, "parameter")


def test_what_leads_to_the_operand_alone_carries_the_original() -> None:
    program = Program()
    entry, x = start(program)
    shared = program.op(entry, "sine", x, tag=1)
    own = program.op(entry, "negate", shared, tag=2)
    h = program.op(entry, "abs", own, tag=3)
    program.kernel(entry, h, tag=4)
    program.op(entry, "cosine", shared, tag=5)
    assert set(carriers(program).paths) == {(2,), (3,)}


def test_a_value_with_a_twin_carries_nothing() -> None:
    program = Program()
    entry, x = start(program)
    h = program.op(entry, "negate", x, tag=1)
    program.kernel(entry, h, tag=2)
    program.op(entry, "negate", x, tag=3)
    assert carriers(program).paths == {}


def test_a_value_that_depends_on_no_parameter_carries_nothing() -> None:
    program = Program()
    entry, _ = start(program)
    h = program.op(entry, "negate", program.op(entry, "constant"), tag=1)
    program.kernel(entry, h, tag=2)
    assert carriers(program).paths == {}


def test_an_overwritten_parameter_carries_its_own_original() -> None:
    # the reader that mixes both reads x before the kernel and again after it
    program, schedule = Program(), Program()
    for builder in (program, schedule):
        entry, x = start(builder)
        if builder is schedule:
            early = builder.op(entry, "abs", x, tag=3)
        sums = builder.kernel(entry, x, tag=2)
        if builder is program:
            early = builder.op(entry, "abs", x, tag=3)
        late = builder.op(entry, "multiply", x, sums, tag=4)
        norm = builder.op(entry, "add", early, late, tag=5)
        builder.op(entry, "tuple", sums, norm, shape=PAIR)
        builder.place(x, sums, early, late, norm)
    schedule.proto.buffer_assignment.buffer_allocations[0].is_entry_computation_parameter = True
    assert carriers(program).parameters == {0: (0,)}
    assert verdicts(judge(program, schedule, "sums", "norm")) == ["fresh", "stale"]


def test_the_first_wrong_operation_is_the_reader_and_not_those_behind_it() -> None:
    program, schedule = Program(), Program()
    for builder in (program, schedule):
        entry, x = start(builder)
        h = builder.op(entry, "negate", x, tag=1)
        if builder is program:
            sums = builder.kernel(entry, h, tag=2)
        y = builder.op(entry, "abs", h, tag=3)
        z = builder.op(entry, "sine", y, tag=4)
        if builder is schedule:
            sums = builder.kernel(entry, h, tag=2)
        builder.op(entry, "tuple", sums, z, shape=PAIR)
        builder.place(x, h, y, z, sums)
    context = judge(program, schedule, "sums", "z")
    (read,) = context.verdicts.stale
    assert read.wrong is not None
    assert (read.reader.opcode, read.outputs, read.wrong.place) == ("abs", ("z",), Place.SAME_BYTES)


def test_a_merged_reader_speaks_for_the_operation_that_it_is_named_after() -> None:
    # |h| before the kernel and |h| after it are one instruction: the first is wrong, the second right, by luck
    program = Program()
    entry, x = start(program)
    h = program.op(entry, "negate", x, tag=1)
    early = program.op(entry, "abs", h, tag=2)
    program.kernel(entry, h, tag=3)
    late = program.op(entry, "abs", h, tag=4)
    program.op(entry, "tuple", early, late, shape=PAIR)
    schedule = Program()
    entry, x = start(schedule)
    h = schedule.op(entry, "negate", x, tag=1)
    sums = schedule.kernel(entry, h, tag=3)
    both = schedule.op(entry, "abs", h, tag=2)
    schedule.op(entry, "tuple", both, both, shape=PAIR)
    schedule.place(x, h, sums, both)
    assert verdicts(judge(program, schedule, "early", "late")) == ["clobbered", "latent"]


def test_elements_of_a_tuple_inside_a_fusion_are_told_apart() -> None:
    program = Program()
    entry, x = start(program)
    h = program.op(entry, "negate", x, tag=1)
    sums = program.kernel(entry, h, tag=2)
    untouched = program.op(entry, "sine", x, tag=4)
    program.op(entry, "tuple", program.op(entry, "add", sums, h, tag=3), untouched, shape=PAIR)
    schedule = Program()
    inner = schedule.computation("inner")
    given = [schedule.op(inner, "parameter", parameter_number=n) for n in range(3)]
    added, sine = schedule.op(inner, "add", given[0], given[1], tag=3), schedule.op(inner, "sine", given[2], tag=4)
    schedule.op(inner, "tuple", added, sine, shape=PAIR)
    outer = schedule.computation("outer")
    given = [schedule.op(outer, "parameter", parameter_number=n) for n in range(3)]
    whole = schedule.op(outer, "fusion", *given, shape=PAIR, calls=[inner])
    parts = [schedule.op(outer, "get-tuple-element", whole, tuple_index=n) for n in (0, 1)]
    schedule.op(outer, "tuple", *parts, shape=PAIR)
    for computation in (inner, outer):
        computation.is_fusion_computation = True
    entry, x = start(schedule)
    h = schedule.op(entry, "negate", x, tag=1)
    sums = schedule.kernel(entry, h, tag=2)
    fusion = schedule.op(entry, "fusion", sums, h, x, shape=PAIR, calls=[outer])
    schedule.place(x, h, sums)
    schedule.define(fusion, 0)
    schedule.define(fusion, 1)
    assert verdicts(judge(program, schedule, "added", "untouched")) == ["fresh", "fresh"]


def test_bytes_written_anew_are_read_without_luck() -> None:
    # z stands where h stood; it is made from the original, which an edge forces to be read before the kernel
    program, schedule = Program(), Program()
    for builder in (program, schedule):
        entry, x = start(builder)
        h = builder.op(entry, "negate", x, tag=1)
        early = builder.op(entry, "abs", h, tag=2)
        sums = builder.kernel(entry, h, tag=3)
        sums.control_predecessor_ids.append(early.id)
        z = builder.op(entry, "sine", early, tag=4)
        last = builder.op(entry, "cosine", z, tag=5)
        builder.op(entry, "tuple", sums, last, shape=PAIR)
        builder.place(x, early, sums, last)
        builder.define(h, offset=0)
        builder.define(z, offset=0)
    assert verdicts(judge(program, schedule, "sums", "last")) == ["fresh", "fresh"]


def test_coverage_counts_the_programs_tags_that_are_seen_again() -> None:
    program, optimized = Program(), Program()
    for builder, tags in ((program, (1, 2, 3)), (optimized, (1, 99, "7#ld2"))):
        entry, x = start(builder)
        for tag in tags:
            x = builder.op(entry, "negate", x, tag=tag)
    modules = [parse_hlo(builder.bytes())[0] for builder in (program, optimized)]
    coverage = compute_tag_coverage(modules[0], modules[1])
    assert (coverage.tags, coverage.found) == (3, 2)


def test_an_instruction_is_named_after_the_tag_and_not_after_a_longer_one() -> None:
    builder = Builder()
    instruction = builder.add(builder.computation("entry"), "parameter", parameter_number=0)
    for name, is_named in (("add_ld17.2", True), ("add_ld171", False), ("add_ld171_ld17", True), ("add", False)):
        instruction.name = name
        assert is_named_after((3, 17), find(parse_hlo(builder.bytes())[0], instruction)) is is_named, name


def test_an_instruction_with_a_twins_name_is_held_against_the_twin_operand_by_operand() -> None:
    """To XLA abs(-x) is abs(x), and the second sum is the first, which nobody reads."""
    program, schedule = Program(), Program()
    entry, x = start(program)
    h = program.op(entry, "negate", x, tag=1)
    program.op(entry, "add", program.op(entry, "abs", h, tag=2), program.op(entry, "sine", h, tag=3), tag=4)
    program.kernel(entry, h, tag=5)
    again = program.op(entry, "add", program.op(entry, "abs", h, tag=6), program.op(entry, "sine", h, tag=7), tag=8)
    program.op(entry, "cosine", again, tag=9)
    entry, x = start(schedule)
    h = schedule.op(entry, "negate", x, tag=1)
    call = schedule.kernel(entry, h, tag=5)
    one, other = schedule.op(entry, "abs", x, tag=2), schedule.op(entry, "sine", h, tag=3)
    both = schedule.op(entry, "add", one, other, tag=4)
    schedule.place(x, h, call, one, other, both, schedule.op(entry, "cosine", both, tag=9))
    assert verdicts(judge(program, schedule, "out")) == ["stale"]


def test_a_factor_that_xla_moved_to_another_operand_leaves_what_was_there_before() -> None:
    """The kernel overwrites v = p * c, and v * sin(v) is computed as p * (c * sin(v))."""
    program, schedule = Program(), Program()
    entry, x = start(program)
    c = program.op(entry, "cosine", x, tag=1)
    p = program.op(entry, "tanh", x, tag=2)
    v = program.op(entry, "multiply", p, c, tag=3)
    program.op(entry, "add", p, c, tag=7)
    program.kernel(entry, v, tag=4)
    program.op(entry, "multiply", v, program.op(entry, "sine", v, tag=5), tag=6)
    entry, x = start(schedule)
    c, p = schedule.op(entry, "cosine", x, tag=1), schedule.op(entry, "tanh", x, tag=2)
    v = schedule.op(entry, "multiply", p, c, tag=3)
    call = schedule.kernel(entry, v, tag=4)
    sine = schedule.op(entry, "sine", v, tag=5)
    moved = schedule.op(entry, "multiply", c, sine, tag=6)
    moved.name = "multiply.99"
    schedule.place(x, c, p, v, call, sine, moved, schedule.op(entry, "multiply", p, moved, tag=6))
    assert verdicts(judge(program, schedule, "out")) == ["stale"]
