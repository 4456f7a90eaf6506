"""The witness on programs whose right answers are worked out by hand.

`launch_rows` replaces x by its gradient: weight * tanh(x), with weight = 1 + column / columns.
"""

from typing import Any

import pytest

from tests.witness.process import call_interpreting

ANSWERS = {
    "a_reader_after_the_kernel_sees_what_it_left": "after",
    "a_reader_before_the_kernel_sees_the_original": "before",
    "another_name_of_the_operand_is_overwritten_too": "after",
    "a_copy_made_before_is_not_overwritten": "before",
    "an_argument_of_the_caller_is_not_overwritten": "before",
    "a_closed_over_array_is_a_constant_of_each_run": "before",
    "a_declared_write_does_not_change_the_operand": "before",
    "a_declared_write_is_in_the_output": "after",
    "a_residual_of_the_users_rule_is_what_the_kernel_left": "after",
    "a_product_with_the_tangent_in_a_jvp_rule_reads_after_the_kernel": "after",
    "the_residual_of_exp_is_the_original": "before",
    "without_saved_values_the_residual_of_exp_is_what_the_kernel_left": "after",
    "the_initial_state_of_a_scan_is_a_copy": "before",
    "the_result_of_a_branch_is_a_copy": "before",
    "a_remat_drops_a_kernel_whose_outputs_only_the_loss_needs": "before",
    "each_device_of_a_shard_map_overwrites_its_own_shard": "after",
    "an_array_on_two_devices_is_overwritten_on_both": "after",
}
"""For each program of `by_hand`, which of its two arrays it returns."""


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    from tests.witness.by_hand import run_all

    return call_interpreting(run_all)


@pytest.mark.parametrize(("name", "answer"), ANSWERS.items(), ids=ANSWERS)
def test_an_eager_run_gives_the_answer_worked_out_by_hand(name: str, answer: str, results: dict[str, Any]) -> None:
    found = results[name]
    other = "before" if answer == "after" else "after"
    assert found[answer] < 1e-5, found
    assert found[other] > 0.1, found


def test_every_program_has_an_answer(results: dict[str, Any]) -> None:
    assert set(results) == set(ANSWERS)
