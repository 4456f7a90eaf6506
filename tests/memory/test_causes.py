"""Each program has the findings, and each copy the cause, that its schedule and its buffer assignment show by hand."""

import re
from collections.abc import Set
from pathlib import Path

import pytest

from ligerdiag import api
from ligerdiag.hlo.parse import load_hlo
from ligerdiag.hlo.shape import compute_byte_size
from ligerdiag.memory.value_uses import ValueUses
from ligerdiag.model.memory import SMALLEST_BYTES
from ligerdiag.model.report import CaseReport, Status
from tests.rotation import current_turn, take_turns

PROGRAMS = Path(__file__).parent / "programs"
RULES = {"LD027", "LD028", "LD029", "LD030", "LD031", "LD032"}

CAUSES = {
    "log_and_overwrite": "LD027: read later",
    "delta_of_scatter": "LD027: read later (needed: read later)",
    "clear_bit_rows": "LD027: not donated",
    "zero_padding": "LD027: not donated",
    "patch_table": "LD027: constant",
    "patch_table_in_loop": "LD027: constant",
    "channels_last": "LD027: layout",
    "transpose_square": "LD027: layout",
    "sgd_momentum_crossed": "LD027: donations crossed",
    "rotate_three": "LD027: donations crossed",
    "normalise_rows": "LD027: donation costs a copy",
    "smooth_once": "LD027: donation costs a copy",
    "reversed_rows": "LD027: donation costs a copy",
    "pallas_on_callers_array": "LD027: not donated",
    "fill_callers_cache": "LD027: not donated",
    "ref_of_callers_array": "LD027: not donated",
    "keep_best": "LD027: read later (needed: returned unchanged)",
    "eigen_update": "LD027: read later (needed: read later)",
    "cast_half": "LD028: dtype",
    "to_labels": "LD027: donation costs a copy",
    "threshold": "LD028: dtype",
    "pad_rows": "LD028: shape",
    "mean_of_three": "LD028: surplus",
    "ignore_second": "LD028: dropped",
    "keep_second": "LD028: unused",
    "shifted": "LD028: dtype",
    "shifted_by_place": "LD028: dtype",
    "last_in_another_dtype": "LD028: dtype",
    "logits_and_loss": "LD028: shape",
    "update_kernel_only": "LD028: shape",
    "pop_last": "LD028: shape",
    "downsample": "LD028: shape",
    "embed": "LD028: shape",
    "quantise_weights": "LD028: dtype",
    "attention_scores": "LD028: shape",
    "dequantise": "LD028: dtype",
    "leapfrog": "LD029: carry exchanged",
    "rotate_buffers": "LD029: carry exchanged",
    "swap_and_scale": "LD029: carry exchanged, carry rebuilt",
    "conjugate_gradient": "LD027: not donated (needed: equal initial values)",
    "jacobi_until": "LD029: carry rebuilt",
    "shift_register": "LD029: carry rebuilt",
    "rolled_history": "LD029: carry rebuilt",
    "game_of_life": "LD029: carry rebuilt",
    "nested_jacobi": "LD027 LD029: carry rebuilt, read later",
    "permute_inside": "LD029: carry rebuilt",
    "transposed_carry": "LD027 LD029: carry rebuilt, layout",
    "reverse_each": "LD029: carry rebuilt",
    "pallas_out_of_place": "LD029: carry rebuilt",
    "softmax_steps": "LD029: carry rebuilt",
    "caches_of_a_scalar": "LD031: equal initial values",
    "caches_from_one_row": "LD031: equal initial values",
    "three_accumulators": "LD031: equal initial values",
    "refs_of_an_argument": "(needed: equal initial values)",
    "edits_of_a_donated": "(needed: equal initial values)",
    "kernels_in_loop_from_zeros": "LD031: equal initial values",
    "kernels_from_one_product": "(needed: equal initial values)",
    "pick_of_three": "LD028: surplus (needed: branch exchanges)",
    "pick_layer_norm": "LD030: branch without effect",
    "order_pair": "LD030: branch exchanges",
    "order_pair_in_loop": "LD030: branch exchanges",
    "accept_or_reject": "LD030: branch exchanges",
    "relax_sometimes": "LD030: branch without effect",
    "target_network": "(needed: branch exchanges)",
    "branch_reads_old": "LD027: read later",
    "select_kept": "LD027: not donated (needed: branch exchanges)",
    "rematerialised": "LD027: read later",
    "layers_with_remat": "LD027: not donated",
    "state_first": "LD027: donations crossed",
    "moments_scanned_crosswise": "LD027: donations crossed",
    "norms_of_update": "(needed: read later)",
    "shared_embedding": "LD027: read later",
    "scan_layers_remat": "LD027: not donated",
    "spectrum": "LD027: donation costs a copy",
    "largest": "LD028: shape",
    "running_max": "LD027: donation costs a copy",
    "prefix_products": "LD027: donation costs a copy",
    "running_sum_donated": "LD027: donation costs a copy",
    "max_pool_same": "LD027: donation costs a copy",
    "convolve": "LD027: donation costs a copy (needed: layout)",
    "gather_rows": "LD027: donation costs a copy",
    "window_shift": "LD027: donation costs a copy",
    "symmetrise": "LD027: donation costs a copy",
    "rms_norm_rows": "LD027: donation costs a copy",
    "householder_columns": "LD029: carry rebuilt",
    "fixed_point": "LD029: carry exchanged",
    "adams_bashforth": "LD029: carry rebuilt",
    "three_level": "LD029: carry exchanged",
    "caches_per_layer": "LD031: equal initial values",
    "bos_in_both": "LD031: equal initial values",
    "noise_twice": "LD031: equal initial values",
    "beam_reorder": "LD029: carry rebuilt",
    "sum_of_start": "LD027: read later",
    "change_of_loop": "LD027: read later (needed: read later)",
    "best_in_loop": "(needed: equal initial values)",
    "best_by_cond": "(needed: branch exchanges)",
    "swap_refs": "LD029: carry exchanged",
    "mapped_rows": "LD027: donation costs a copy",
    "write_both_ways": "(needed: equal initial values)",
    "kernel_then_old_donated": "LD027: read later",
    "kernel_on_transposed": "LD027: layout",
    "advect": "LD029: carry rebuilt",
    "fibonacci": "LD029: carry exchanged",
    "swap_halves": "LD029: carry rebuilt",
    "nested_swap": "LD029: carry exchanged",
    "cumsum_in_loop": "LD029: carry rebuilt",
    "cond_exchange_dict": "LD030: branch exchanges",
    "nested_cond_exchange": "LD030: branch exchanges, branch without effect",
    "switch_transforms": "LD030: branch without effect",
    "cond_on_kept": "(needed: branch without effect)",
    "cond_computed_operand": "LD030: branch without effect",
    "sharded_otherwise": "LD028: sharding",
    "donate_static_part": "LD028: dropped, surplus",
    "donated_half_returned": "LD028: unused",
    "three_for_two": "LD028: surplus",
    "to_bfloat_pair": "LD028: surplus",
    "reduce_rows": "LD028: shape",
    "weights_to_int8": "LD028: dtype",
    "particle_resample": "LD027: donation costs a copy",
    "cellular": "LD029: carry rebuilt",
    "boundary_only": "LD029: carry rebuilt",
    "predictor_corrector": "LD029: carry rebuilt",
    "page_table_free": "LD027: read later",
    "rollback": "LD030: branch exchanges (needed: equal initial values)",
    "two_tables": "LD027: read later",
    "history_of_two": "LD027: donations crossed",
    "solve_triangular": "(needed: layout)",
    "factor_and_solve": "LD028: shape (needed: layout)",
    "shuffle_rows": "LD027: donation costs a copy",
    "untouched_and_kept": "(needed: returned unchanged)",
    "same_output_twice": "LD027: donation costs a copy",
    "butterfly_half_donated": "LD027: not donated",
    "butterfly_crossed": "LD027: donations crossed",
    "butterfly_loop_crossed": "LD029: carry exchanged",
    "negate_kept": "LD027: not donated",
    "negate_and_compare": "LD027: read later",
    "negate_both_zeros": "(needed: returned unchanged)",
    "ring": "LD027 LD029: carry rebuilt, donation costs a copy",
    "transpose_shard": "(needed: layout)",
    "momentum_cond_crossed": "LD027: donations crossed",
    "three_state": "LD029: carry exchanged",
    "init_and_return": "LD027: read later (needed: returned unchanged)",
    "init_two_loops": "LD027: read later (needed: equal initial values)",
    "scan_swapped_ys": "LD029: carry exchanged, carry rebuilt",
    "cond_in_cond_noop": "LD030: branch without effect",
    "donated_dtype_pair": "LD027: donations crossed",
    "momentum_in_bf16": "LD027 LD028: donations crossed, dtype",
    "batch_of_another_shape": "LD027 LD028: donations crossed, shape",
    "batch_of_another_dtype": "LD027 LD028: donations crossed, surplus",
    "drop_half": "LD028: no output (needed: returned unchanged)",
    "keep_old": "LD027: returned unchanged",
    "keep_old_and_write": "LD027: read later (needed: returned unchanged)",
    "keep_old_first_and_write": "(needed: read later)",
    "rotate": "LD027: donations crossed",
}
"""Case to its rules and the causes of copies and donations, and the causes of copies that the program needs."""

IN_PLACE = {
    "square_matrix", "pallas_then_old", "pallas_twice_from_one", "read_then_write_loop", "flatten", "power_iteration",
    "attention_layers", "recurrent", "caches_like_query", "caches_of_minus_infinity", "indices_twice", "two_masks",
    "refs_of_ones", "sharpen_both", "moments_from_zero", "maybe_sort", "maybe_solve", "skip_nan_step",
    "clip_if_large", "nested_guard", "write_if_room", "write_if_room_in_loop", "reset_or_keep", "reset_by_where",
    "lion", "rmsprop", "adam_scan", "append_to_cache", "attend_and_append", "ring_buffer", "sparse_embedding",
    "histogram", "sorted_copy", "running_sum", "per_example", "masked_update", "custom_rule", "pallas_in_place",
    "pallas_in_a_loop", "triton_in_place", "ref_counts", "ref_matrix", "zero_borders", "quantised_cache", "ema",
    "residual", "token_buffer", "greedy_decode", "in_place_steps", "transposed_read", "transposed_copy",
    "accumulate_gradients", "life_support", "loss_scale", "unroll_four", "dropout", "both_sums", "clipped_adamw",
    "loss_first", "accumulate_every_four", "return_gradients_too", "lookahead", "polyak_conditional",
    "gradient_into_donated", "mixed_precision", "project_transposed", "low_pass", "sort_pair", "flip_bits",
    "outer_update", "scale_columns", "batch_norm", "triangular_mask", "diagonal_shift", "gauss_seidel", "runge_kutta",
    "decode_unknown_length", "checkpoint_stack", "ref_history", "ref_zeros_of_int8", "reversed_scan",
    "stream_partition", "two_writes_one_after", "slide", "int_counters", "kernel_on_donated", "kernel_chain",
    "kernel_in_branch", "kernel_on_a_view", "symplectic", "swap_by_parity", "row_pass", "unrolled_swap",
    "matmul_iterations", "sort_in_loop", "cond_step_in_while", "dict_cond", "cond_matmul_in_scan", "sharded_update",
    "sharded_step", "reshape_returned", "int8_from_int8", "push_one", "push_batch", "push_and_sample",
    "sample_then_push", "push_if_novel", "renormalised_push", "priorities", "particle_move", "paged_copy",
    "speculative", "slot_cache", "quantile_ema", "mixture_of_experts", "gather_and_clear", "accumulate_in_int8",
    "trapezoid", "cholesky_of_kept", "cholesky_of_donated", "set_by_mask", "put_maximum", "put_along",
    "scatter_two_indices", "set_diagonal_blocks", "set_strided", "swap_two_rows", "power_of_two",
    "untouched_and_touched", "broadcast_back", "vmapped_cond", "bf16_accumulate", "max_plus", "butterfly_donated",
    "butterfly_loop", "negate_in_loop", "negate_in_branch", "cache_sharded", "row_write", "fsdp", "outer_while",
    "momentum_cond", "keep_old_first", "rotate_split", "offload",
}  # fmt: skip
"""Cases without any copy of a whole array."""


FILES = sorted(PROGRAMS.glob("[a-z]*.py"))
ANSWERS = CAUSES | dict.fromkeys(sorted(IN_PLACE), "")
FIRST_OF_EACH = {answer: name for name, answer in reversed(CAUSES.items())}
ALONE = [name for answer, name in FIRST_OF_EACH.items() if not re.search(r", | \(needed", answer)]
BESIDES = [name for name in (*FIRST_OF_EACH.values(), *sorted(IN_PLACE)[::12]) if name not in ALONE]
SOME = {"offload", *ALONE, *take_turns(BESIDES, current_turn())}
"""The cases of a day: the first one with each answer that has one cause, and in turns the first one with each other
answer and a twelfth of those without a copy.
"""


@pytest.fixture(
    scope="module",
    params=[SOME, pytest.param(ANSWERS.keys(), marks=pytest.mark.nightly)],
    ids=["some", "all"],
)
def names(request: pytest.FixtureRequest) -> Set[str]:
    return request.param


@pytest.fixture(scope="module")
def cases(names: Set[str], shared_cache: Path) -> dict[str, CaseReport]:
    selectors: list[str] = []
    for file in FILES:
        written = re.findall(r'name="(\w+)"', file.read_text(encoding="utf-8"))
        chosen = [f"{file}::{one}" for one in written if one in names]
        selectors += [str(file)] if names == ANSWERS.keys() else chosen
    options = api.CheckOptions(selectors=tuple(selectors), cache_directory=shared_cache, replay=False)
    return {case.id: case for case in api.check(options).cases}


def describe(case: CaseReport) -> str:
    assert case.status is not Status.ERROR, case.error
    assert case.memory is not None
    rules = " ".join(sorted({finding.rule for finding in case.findings} & RULES))
    copies = case.memory.copies
    faults = {one.fault.value for one in case.memory.donations if one.fault}
    causes = ", ".join(sorted({one.cause.value for one in copies if not one.is_needed} | faults))
    needed = ", ".join(sorted({one.cause.value for one in copies if one.is_needed}))
    avoidable = f"{rules}: {causes}" if rules or causes else ""
    return f"{avoidable} (needed: {needed})".strip() if needed else avoidable


def test_every_program_has_the_causes_that_its_schedule_shows(cases: dict[str, CaseReport], names: Set[str]) -> None:
    assert {name: describe(case) for name, case in cases.items()} == {name: ANSWERS[name] for name in names}


def test_no_large_copy_of_a_schedule_is_missing(cases: dict[str, CaseReport]) -> None:
    """Counted by opcode, without any of the analysis of copies."""
    for name, case in cases.items():
        assert case.artifact is not None
        assert case.memory is not None
        module, buffers = load_hlo(Path(case.artifact) / "optimized.hlo.pb")
        assert buffers is not None
        scheduled = [one for computation in ValueUses(module, buffers).computations for one in computation.instructions]
        copies = [one for one in scheduled if one.opcode == "copy"]
        large = {one.name for one in copies if (compute_byte_size(one.shape) or 0) >= SMALLEST_BYTES}
        assert large <= {one.instruction for one in case.memory.copies}, name


def test_every_finding_about_a_copy_says_how_much_it_moves(cases: dict[str, CaseReport]) -> None:
    findings = [one for case in cases.values() for one in case.findings if one.rule in RULES - {"LD028"}]
    assert len(findings) > 15
    for finding in findings:
        assert re.search(r"move[s]? (at least )?[0-9.]+ [KM]iB", finding.message), finding.message
