"""A kernel that the program calls always, and the schedule in a branch or a loop that may not run, or never does."""

from collections.abc import Callable

import pytest

from ligerdiag.analysis.context import Context
from ligerdiag.hlo.xla_pb2 import HloComputationProto, HloInstructionProto, ShapeProto
from tests.analysis.by_hand import Program, judge, verdicts
from tests.hlo.building import array, tuple_of

PAIR = tuple_of(array(4), array(4))
PRED, S32 = ShapeProto(element_type=1), ShapeProto(element_type=4)
STATE = tuple_of(array(4), S32)

type Predicate = Callable[[Program, HloComputationProto], HloInstructionProto]
"""Adds the predicate, or index, of a conditional; what is given as parameters 1 and 2 of the entry are a pred and an s32."""


def truth(program: Program, at: HloComputationProto, value: bool) -> HloInstructionProto:
    added = program.op(at, "constant", shape=PRED)
    added.literal.preds.append(value)
    return added


def number(program: Program, at: HloComputationProto, value: int) -> HloInstructionProto:
    added = program.op(at, "constant", shape=S32)
    added.literal.s32s.append(value)
    return added


def given(at: HloComputationProto, which: int) -> HloInstructionProto:
    return next(one for one in at.instructions if one.opcode == "parameter" and one.parameter_number == which)


def compare(
    program: Program, at: HloComputationProto, one: HloInstructionProto, other: HloInstructionProto, direction: str
) -> HloInstructionProto:
    added = program.op(at, "compare", one, other, shape=PRED)
    added.comparison_direction = direction
    return added


def behind(*opcodes: str) -> Predicate:
    """A constant false behind operations that hand it on."""

    def add(program: Program, at: HloComputationProto) -> HloInstructionProto:
        value = truth(program, at, False)
        for opcode in opcodes:
            value = program.op(at, opcode, value, shape=PRED)
        return value

    return add


def take_from_tuple(program: Program, at: HloComputationProto) -> HloInstructionProto:
    both = program.op(at, "tuple", given(at, 1), truth(program, at, False), shape=tuple_of(PRED, PRED))
    return program.op(at, "get-tuple-element", both, shape=PRED, tuple_index=1)


def copy_elsewhere(program: Program, at: HloComputationProto) -> HloInstructionProto:
    context = ShapeProto(element_type=7)
    start = program.op(at, "copy-start", truth(program, at, False), shape=tuple_of(PRED, PRED, context))
    return program.op(at, "copy-done", start, shape=PRED)


def add_with(opcode: str, value: bool) -> Predicate:
    return lambda program, at: program.op(at, opcode, given(at, 1), truth(program, at, value), shape=PRED)


NEVER: dict[str, Predicate] = {
    "constant": behind(),
    "copies": behind("copy", "copy"),
    "bitcast of a copy": behind("copy", "bitcast"),
    "barrier": behind("opt-barrier"),
    "reshape": behind("reshape"),
    "a number converted": lambda program, at: program.op(at, "convert", number(program, at, 0), shape=PRED),
    "not true": lambda program, at: program.op(at, "not", truth(program, at, True), shape=PRED),
    "an element of a tuple": take_from_tuple,
    "an asynchronous copy": copy_elsewhere,
    "and false": add_with("and", False),
    "two numbers": lambda program, at: compare(program, at, number(program, at, 2), number(program, at, 1), "LT"),
    "itself": lambda program, at: compare(program, at, given(at, 2), given(at, 2), "NE"),
    "exclusive or with itself": lambda program, at: program.op(at, "xor", given(at, 1), given(at, 1), shape=PRED),
    "another branch": lambda program, at: number(program, at, 1),
    "an index out of range": lambda program, at: number(program, at, 7),
    "an index below zero": lambda program, at: number(program, at, -1),
    "a sum": lambda program, at: program.op(at, "add", number(program, at, 3), number(program, at, -2), shape=S32),
    "an index within bounds": lambda program, at: program.op(
        at, "clamp", number(program, at, 1), given(at, 2), number(program, at, 1), shape=S32
    ),
}
ALWAYS: dict[str, Predicate] = {
    "true": lambda program, at: truth(program, at, True),
    "its own branch": lambda program, at: number(program, at, 0),
    "or true": add_with("or", True),
    "itself": lambda program, at: compare(program, at, given(at, 2), given(at, 2), "LE"),
}
PERHAPS: dict[str, Predicate] = {
    "a parameter": lambda program, at: given(at, 1),
    "an index": lambda program, at: given(at, 2),
    "a comparison": lambda program, at: compare(program, at, given(at, 2), number(program, at, 0), "GT"),
    "and true": add_with("and", True),
    "or false": add_with("or", False),
    "other numbers": lambda program, at: compare(program, at, number(program, at, 1), given(at, 2), "EQ"),
}


def begin() -> tuple[Program, HloComputationProto, HloInstructionProto]:
    """An entry computation with x, a pred and an s32, and h = -x. Computations that it calls are moved before it."""
    program = Program()
    entry = program.computation("entry")
    x = program.op(entry, "parameter")
    flag = program.op(entry, "parameter", shape=PRED, parameter_number=1)
    index = program.op(entry, "parameter", shape=S32, parameter_number=2)
    h = program.op(entry, "negate", x, tag=1)
    program.place(x, flag, index, h)
    return program, entry, h


def finish(program: Program, entry: HloComputationProto, h: HloInstructionProto, sums: HloInstructionProto) -> Program:
    """y = |h|, surely behind the kernel; the entry goes behind what it calls."""
    y = program.op(entry, "abs", h, tag=12)
    y.control_predecessor_ids.append(next(one.id for one in (sums, *reversed(entry.instructions)) if one.id != y.id))
    program.place(y)
    program.op(entry, "tuple", sums, y, shape=PAIR)
    module = program.proto.hlo_module
    computations = list(module.computations)
    own = next(one for one in computations if one.name == "entry")
    del module.computations[:]
    module.computations.extend([*(one for one in computations if one is not own), own])
    module.entry_computation_id, module.entry_computation_name = own.id, own.name
    return program


def write_program() -> Program:
    program, entry, h = begin()
    return finish(program, entry, h, program.kernel(entry, h, tag=2))


def add_branches(
    program: Program, *, kernels: tuple[int, ...] = (0,), branches: int = 2, inner: Predicate | None = None
) -> list[HloComputationProto]:
    """Branches with one parameter, of which those with these numbers call the kernel, perhaps in a conditional inside."""
    found: list[HloComputationProto] = []
    for branch in range(branches):
        nested = add_branches(program) if inner is not None and branch in kernels else []
        computation = program.computation(f"branch{program.proto.ByteSize()}")
        h = program.op(computation, "parameter")
        if nested and inner is not None:
            predicate = inner(program, computation)
            result = program.op(computation, "conditional", predicate, h, h, calls=nested)
            program.place(predicate, result)
        elif branch in kernels:
            result = program.kernel(computation, h, tag=2)
            program.place(result)
        else:
            result = program.op(computation, "constant")
            result.literal.f32s.extend([0.0] * 4)
            program.place(result)
        found.append(computation)
    return found


def call_under(
    predicate: Predicate, *, kernels: tuple[int, ...] = (0,), branches: int = 2, inner: Predicate | None = None
) -> Program:
    program, entry, h = begin()
    called = add_branches(program, kernels=kernels, branches=branches, inner=inner)
    conditional = program.op(entry, "conditional", predicate(program, entry), *[h] * branches, calls=called, tag=9)
    program.place(conditional)
    return finish(program, entry, h, conditional)


def call_in_loop(goes_on: Predicate, *, first: int = 0, kernel_in_condition: bool = False) -> Program:
    """The kernel in a loop whose state is h and a counter from `first` on; `goes_on` adds its predicate."""
    program, entry, h = begin()
    body, condition = program.computation("body"), program.computation("condition")
    for computation in (body, condition):
        state = program.op(computation, "parameter", shape=STATE)
        own = program.op(computation, "get-tuple-element", state, tuple_index=0)
        count = program.op(computation, "get-tuple-element", state, shape=S32, tuple_index=1)
        if (computation is condition) is kernel_in_condition:
            program.place(program.kernel(computation, own, tag=2))
        if computation is body:
            more = program.op(computation, "add", count, number(program, computation, 1), shape=S32)
            program.place(more)
            program.op(computation, "tuple", own, more, shape=STATE)
        else:
            program.place(goes_on(program, computation))
    start = number(program, entry, first)
    state = program.op(entry, "tuple", h, start, shape=STATE)
    loop = program.op(entry, "while", state, calls=[body, condition], shape=STATE, tag=9)
    loop.backend_config = b'{"known_trip_count":{"n":"1"}}'
    after = program.op(entry, "get-tuple-element", loop, tuple_index=0)
    sums = program.op(entry, "sine", after, tag=10)
    program.place(start, sums)
    return finish(program, entry, h, sums)


def write_program_of_loop() -> Program:
    program, entry, h = begin()
    program.place(program.kernel(entry, h, tag=2))
    return finish(program, entry, h, program.op(entry, "sine", h, tag=10))


def up_to(bound: int) -> Predicate:
    def add(program: Program, at: HloComputationProto) -> HloInstructionProto:
        count = [one for one in at.instructions if one.tuple_index == 1][-1]
        return compare(program, at, count, number(program, at, bound), "LT")

    return add


def ask_device(program: Program, at: HloComputationProto) -> HloInstructionProto:
    return compare(program, at, program.op(at, "partition-id", shape=S32), number(program, at, 0), "EQ")


def judge_under(predicate: Predicate, **words: object) -> Context:
    return judge(write_program(), call_under(predicate, **words), "sums", "y")  # type: ignore[arg-type]


@pytest.mark.parametrize("form", NEVER)
def test_a_kernel_in_a_branch_that_is_never_taken_has_not_happened(form: str) -> None:
    assert verdicts(judge_under(NEVER[form])) == ["stale", "stale"]


@pytest.mark.parametrize("form", ALWAYS)
def test_a_kernel_in_the_branch_that_is_always_taken_has_happened(form: str) -> None:
    assert verdicts(judge_under(ALWAYS[form])) == ["fresh", "fresh"]


@pytest.mark.parametrize("form", PERHAPS)
def test_a_kernel_in_a_branch_that_may_not_be_taken_leaves_all_unknown(form: str) -> None:
    context = judge_under(PERHAPS[form])
    assert verdicts(context) == ["unknown", "unknown"]
    assert context.matching.conditional == {0}


def test_a_kernel_in_each_branch_is_called_always() -> None:
    assert verdicts(judge_under(PERHAPS["a parameter"], kernels=(0, 1)))[1] == "fresh"
    assert verdicts(judge_under(PERHAPS["an index"], kernels=(0, 1), branches=3)) == ["unknown", "unknown"]


@pytest.mark.parametrize(
    ("outer", "inner", "expected"),
    [
        ("true", "constant", "stale"),
        ("a parameter", "constant", "stale"),
        ("constant", "true", "stale"),
        ("a parameter", "true", "unknown"),
        ("true", "true", "fresh"),
    ],
)
def test_one_branch_inside_of_another(outer: str, inner: str, expected: str) -> None:
    forms = NEVER | PERHAPS | ALWAYS
    context = judge_under(forms[outer], inner=forms[inner])
    assert verdicts(context) == [expected, expected]


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (call_in_loop(behind()), "stale"),
        (call_in_loop(behind("copy")), "stale"),
        (call_in_loop(up_to(0)), "stale"),
        (call_in_loop(up_to(3), first=5), "stale"),
        (call_in_loop(up_to(1)), "fresh"),
        (call_in_loop(behind(), kernel_in_condition=True), "fresh"),
        (call_in_loop(up_to(0), kernel_in_condition=True), "fresh"),
    ],
    ids=["false", "a copy of false", "no trip", "begins above", "one trip", "in the condition", "in that of no trip"],
)
def test_a_kernel_in_a_loop_that_never_runs_has_not_happened(schedule: Program, expected: str) -> None:
    assert verdicts(judge(write_program_of_loop(), schedule, "sums", "y")) == [expected, expected]


def test_a_kernel_in_a_loop_that_may_not_run_leaves_all_unknown() -> None:
    def ask(program: Program, at: HloComputationProto) -> HloInstructionProto:
        value = next(one for one in at.instructions if one.opcode == "get-tuple-element")
        total = program.op(at, "slice", value, shape=array())
        return compare(program, at, total, total, "EQ")  # false for a NaN

    assert verdicts(judge(write_program_of_loop(), call_in_loop(ask), "sums", "y")) == ["unknown", "unknown"]


@pytest.mark.parametrize("form", ["a parameter", "an index", "a comparison"])
def test_a_conditional_of_the_programs_own_stays_one(form: str) -> None:
    program, schedule = call_under(PERHAPS[form]), call_under(PERHAPS[form])
    context = judge(program, schedule, "sums", "y")
    assert not context.matching.conditional
    assert verdicts(context) == ["fresh", "fresh"]


def test_an_index_may_become_a_truth_value() -> None:
    """The kernel in branch 1 is that of `true`, which comes first."""
    program = call_under(PERHAPS["an index"], kernels=(1,))
    turned = lambda program, at: program.op(at, "convert", given(at, 2), shape=PRED)  # noqa: E731
    assert not judge(program, call_under(turned, kernels=(0,)), "sums", "y").matching.conditional
    assert judge(program, call_under(turned, kernels=(1,)), "sums", "y").matching.conditional


@pytest.mark.parametrize(
    ("schedule", "about"),
    [
        (call_under(PERHAPS["a parameter"]), "another argument decides"),
        (call_under(PERHAPS["an index"], kernels=(1,)), "another branch"),
        (call_under(PERHAPS["an index"], branches=3), "more branches"),
        (call_under(PERHAPS["an index"], inner=ask_device), "one more inside"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_another_condition_than_the_programs_is_one_more(schedule: Program, about: str) -> None:
    context = judge(call_under(PERHAPS["an index"]), schedule, "sums", "y")
    assert verdicts(context) == ["unknown", "unknown"], about


def test_a_conditional_of_the_programs_own_that_never_calls_the_kernel_makes_nothing_stale() -> None:
    schedule, entry, h = begin()
    zeros = schedule.op(entry, "constant")
    zeros.literal.f32s.extend([0.0] * 4)
    schedule.place(zeros)
    program = call_under(NEVER["constant"])
    context = judge(program, finish(schedule, entry, h, zeros), "sums", "y")
    assert context.writes == ()
    assert verdicts(context) == ["fresh", "fresh"]
