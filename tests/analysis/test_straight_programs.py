"""Verdicts on programs without loops or branches; each test gives the reason."""

import pytest

from ligerdiag.hlo.module import parse_tag_path
from tests.analysis.conftest import Programs
from tests.analysis.schedule_oracle import MUST_NOT_SEE, MUST_SEE, classify_read, find_kernels


def test_a_program_without_kernels_has_nothing_to_check(straight: Programs) -> None:
    inspection = straight["clean"].inspection
    assert straight["clean"].verdicts == {"product": "fresh", "sum": "fresh"}
    assert (inspection.coverage.kernels, inspection.coverage.hidden_writes, inspection.findings) == (0, 0, ())


def test_a_declared_write_is_not_hidden(straight: Programs) -> None:
    inspection = straight["declared"].inspection
    assert straight["declared"].verdicts == {"sums": "fresh", "back": "fresh"}
    assert (inspection.coverage.kernels, inspection.coverage.hidden_writes, inspection.findings) == (1, 0, ())


def test_each_reader_is_judged_by_its_own_position_in_the_schedule(straight: Programs) -> None:
    program = straight["readers"]
    assert program.verdicts == {
        "early": MUST_NOT_SEE[classify_read(program, "early")],  # comes before the kernel in the program
        "late": MUST_SEE[classify_read(program, "late")],
        "back": MUST_SEE[classify_read(program, "back")],
        "sums": "fresh",  # returned by the kernel
        "seen": "fresh",  # needs what the kernel returns
    }


def test_a_folded_convert_returns_the_old_value(straight: Programs) -> None:
    # f32 -> bf16 of a value that was bf16 -> f32: XLA uses the first bf16 value, which no kernel touches
    assert straight["mixed"].verdicts == {"missed": "stale", "seen": "fresh", "norm": "stale"}


@pytest.mark.parametrize("case", ["mixed", "mixed_inner_jit", "mixed_with_original"])
def test_a_norm_over_a_fresh_and_a_stale_part_is_stale(straight: Programs, case: str) -> None:
    # the sets of the norm itself agree, because its fresh part depends on the write
    assert straight[case].verdicts["norm"] == "stale"


def test_the_outputs_of_a_fusion_are_judged_apart_from_those_of_the_kernel(straight: Programs) -> None:
    # all readers of the value need `sums`: whatever is fused with what, they come after the kernel
    program = straight["multi_output_fusion"]
    assert program.verdicts == {"seen": "fresh", "sum": "fresh", "sums": "fresh"}
    assert any(i.opcode == "fusion" and len(i.shape.tuple_shapes) > 1 for i in program.optimized.entry.sequence)


def test_a_value_returned_twice_is_the_overwritten_one_both_times(straight: Programs) -> None:
    # XLA copies at the end, out of a tuple that also holds the kernel's result
    assert straight["same_value_twice"].verdicts == {"sums": "fresh", "one": "fresh", "other": "fresh"}


def test_two_kernels_on_one_value_are_right_by_luck(straight: Programs) -> None:
    # nothing orders the kernels: what each returns depends on whether the other ran before it
    program = straight["two_kernels"]
    first, second = sorted(find_kernels(program), key=lambda place: place.time)
    assert first.instruction.operands == second.instruction.operands
    as_written = parse_tag_path(first.instruction.op_name) < parse_tag_path(second.instruction.op_name)
    assert as_written, "XLA has exchanged the kernels: expect stale instead"
    assert program.verdicts == {"sums": "latent", "maxima": "latent", "seen": "latent"}


def test_a_kernel_called_twice_on_one_value_runs_once(straight: Programs) -> None:
    # XLA merges the two calls: the second write never happens
    program = straight["same_kernel_twice"]
    assert len(find_kernels(program)) == 1
    assert program.verdicts == {"first": "fresh", "second": "stale", "h": "stale"}
    assert {"LD007", "LD008"} & {finding.rule for finding in program.inspection.findings} == {"LD008"}


def test_the_second_of_two_merged_calls_returns_what_the_first_does(straight: Programs) -> None:
    # it should have read the doubled rows; the other part of the norm still depends on the first write
    program = straight["merged_calls"]
    assert len(find_kernels(program)) == 1
    assert program.verdicts == {"norm": "stale", "first": "fresh"}


def test_an_entry_parameter_is_returned_as_the_kernel_left_it(straight: Programs) -> None:
    # the copy into the output reads a tuple that also holds the kernel's result
    program = straight["entry_parameter"]
    assert program.verdicts == {"x": "fresh", "sums": "fresh", "late": MUST_SEE[classify_read(program, "late")]}


@pytest.mark.parametrize("case", ["donated_parameter", "donated_and_added"])
def test_a_donated_parameter_is_overwritten_in_the_bytes_of_the_output(straight: Programs, case: str) -> None:
    program = straight[case]
    (output,) = [n for n, leaf in enumerate(program.artifact.provenance.outputs) if leaf == "x"]
    (parameter,) = program.optimized.entry.parameters
    assert program.positions.locate(program.optimized.entry.root)[output] in program.positions.locate(parameter)
    assert program.verdicts == {"x": "fresh", "sums": "fresh"}


def test_a_constant_is_folded_into_its_reader(straight: Programs) -> None:
    # the compiler computes zeros + 1, from zeros that were never overwritten
    assert straight["folded_constant"].verdicts == {"one": "stale", "product": "fresh", "sums": "fresh"}


def test_equal_constants_are_not_one_value(straight: Programs) -> None:
    # XLA merges the zeros and copies them again, because the program returns both
    assert set(straight["shared_zeros"].verdicts.values()) == {"fresh"}


def test_a_reshape_of_the_value_is_a_separate_value(straight: Programs) -> None:
    # the program overwrites only the reshaped value; in the schedule the reshape is another name for the same bytes
    program = straight["reshaped_operand"]
    assert program.verdicts == {
        "sums": "fresh",
        "forced": "clobbered",
        "late": MUST_NOT_SEE[classify_read(program, "late")],
    }


def test_a_slice_of_the_value_is_a_separate_value(straight: Programs) -> None:
    # the slice is computed into other bytes
    assert straight["sliced_operand"].verdicts == {"sums": "fresh", "whole": "fresh"}


def test_an_optimization_barrier_forces_the_order(straight: Programs) -> None:
    assert straight["barrier"].verdicts == {"sums": "fresh", "back": "fresh"}


def test_a_value_computed_again_is_merged_with_the_overwritten_one(straight: Programs) -> None:
    # in the program `again` is a separate value, and needs the kernel's result only as a factor
    assert straight["recomputed"].verdicts == {"sums": "fresh", "again": "clobbered"}


def test_products_that_xla_merges_stay_two_values(straight: Programs) -> None:
    # x @ w and y @ w become one product of twice the rows; each kernel gets its own slice
    program = straight["merged_products"]
    assert any("concatenate" in i.name for i in program.optimized.entry.instructions)
    assert program.verdicts == {"first": "fresh", "second": "fresh"}


def test_readers_that_xla_merges_into_one_product_are_judged_separately(straight: Programs) -> None:
    assert straight["merged_readers"].verdicts == {"missed": "stale", "seen": "fresh"}


def test_a_merged_value_that_is_read_before_the_kernel_is_right_by_luck(straight: Programs) -> None:
    assert straight["recomputed_by_luck"].verdicts["again"] == "latent"


def test_a_residual_and_a_new_value_in_the_same_operation_are_distinguished(straight: Programs) -> None:
    # one fusion squares the overwritten bytes: one factor is intended, the other should be the exponentials
    assert straight["residual_beside_new"].verdicts == {"loss": "fresh", "gradient": "clobbered"}


def test_an_overwritten_constant_is_reported_although_each_execution_is_judged_alone(straight: Programs) -> None:
    program = straight["literal_operand"]
    (kernel,) = find_kernels(program)
    assert kernel.instruction.operands[0].opcode == "constant"
    assert program.verdicts["sums"] == "fresh"
    assert "LD009" in {finding.rule for finding in program.inspection.findings}


def test_values_that_are_joined_and_split_depend_on_their_own_parts(straight: Programs) -> None:
    # h is joined before the kernel overwrites it; g does not depend on the kernel
    assert straight["joined_and_split"].verdicts == {"sums": "fresh", "of_h": "stale", "of_g": "fresh"}
