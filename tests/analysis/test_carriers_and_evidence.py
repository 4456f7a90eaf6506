"""Carriers of the contents from before a write, the operation that gets the blame, and tags that are found again."""

from ligerdiag.analysis.evaluated_pair import is_named_after
from ligerdiag.analysis.evaluation.carriers import Carriers, compute_carriers
from ligerdiag.analysis.write_correspondence import compute_tag_coverage
from ligerdiag.analysis.writes import find_hidden_writes
from ligerdiag.hlo.parse import parse_hlo
from ligerdiag.hlo.xla_pb2 import HloComputationProto, HloInstructionProto
from ligerdiag.model.schedule_view import Place
from tests.analysis.by_hand import Program, effects_of
from tests.analysis.pair_files import judge_pair, load_pairs, read_pair
from tests.hlo.building import Builder, find


def carriers(program: Program) -> Carriers:
    module, _ = parse_hlo(program.bytes())
    return compute_carriers(find_hidden_writes(module, effects_of))


def start(program: Program) -> tuple[HloComputationProto, HloInstructionProto]:
    entry = program.computation("entry")
    return entry, program.op(entry, "parameter")


def test_only_operations_used_for_nothing_but_the_operand_carry_the_original() -> None:
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
    program, _ = read_pair(load_pairs("overwritten_parameter")[""])
    assert compute_carriers(find_hidden_writes(parse_hlo(program)[0], effects_of)).parameters == {0: (0,)}


def test_the_first_wrong_operation_is_the_reader_and_not_its_users() -> None:
    (read,) = judge_pair("reader_of_a_stale_reader").verdicts.stale
    assert read.wrong is not None
    assert (read.reader.opcode, read.outputs, read.wrong.place) == ("abs", ("z",), Place.SAME_BYTES)


def test_coverage_counts_the_tags_of_the_program_that_are_found_again() -> None:
    program, optimized = Program(), Program()
    for builder, tags in ((program, (1, 2, 3)), (optimized, (1, 99, "7#ld2"))):
        entry, x = start(builder)
        for tag in tags:
            x = builder.op(entry, "negate", x, tag=tag)
    modules = [parse_hlo(builder.bytes())[0] for builder in (program, optimized)]
    coverage = compute_tag_coverage(modules[0], modules[1])
    assert (coverage.tags, coverage.found) == (3, 2)


def test_the_tag_in_a_name_is_not_confused_with_a_longer_one() -> None:
    builder = Builder()
    instruction = builder.add(builder.computation("entry"), "parameter", parameter_number=0)
    for name, is_named in (("add_ld17.2", True), ("add_ld171", False), ("add_ld171_ld17", True), ("add", False)):
        instruction.name = name
        assert is_named_after((3, 17), find(parse_hlo(builder.bytes())[0], instruction)) is is_named, name
