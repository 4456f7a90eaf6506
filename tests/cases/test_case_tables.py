"""The tables in cases/: their number and ids, and that building them needs no JAX."""

import subprocess
import sys
from collections import Counter

import pytest

from cases import (
    accumulated_sum,
    autotuned,
    barrier_copy,
    bf16_flce,
    chunked_flce,
    constant,
    cross_entropy_modes,
    donated_outputs,
    dropped_backward,
    flce_modes,
    in_flight,
    loop_carry,
    moved_ref,
    pallas_cross_entropy,
    partial_write,
    permuted_rows,
    same_buffer_twice,
    saved_residual,
    seed_cross_entropy,
    seed_flce,
    sharded_flce,
    shared_bytes,
    sub_views,
    two_losses,
    undonated_parameter,
    unknown_effect,
)
from ligerdiag.model.case import Case
from ligerdiag.report.status import parse_expected_rules

TABLES = {
    accumulated_sum: 8,
    autotuned: 2,
    barrier_copy: 5,
    bf16_flce: 8,
    chunked_flce: 15,
    constant: 2,
    cross_entropy_modes: 10,
    donated_outputs: 4,
    dropped_backward: 2,
    flce_modes: 40,
    in_flight: 4,
    loop_carry: 4,
    moved_ref: 3,
    pallas_cross_entropy: 9,
    partial_write: 5,
    permuted_rows: 2,
    same_buffer_twice: 3,
    saved_residual: 18,
    seed_cross_entropy: 8,
    seed_flce: 16,
    sharded_flce: 36,
    shared_bytes: 4,
    sub_views: 2,
    two_losses: 6,
    undonated_parameter: 4,
    unknown_effect: 2,
}
CASES = tuple(case for table in TABLES for case in table.CASES)


def get_case(id: str) -> Case:
    return next(case for case in CASES if case.id == id)


@pytest.mark.parametrize(("table", "count"), TABLES.items(), ids=[table.__name__ for table in TABLES])
def test_a_table_names_its_cases_after_itself(table, count):
    assert len(table.CASES) == count
    assert {f"cases.{case.name}" for case in table.CASES} == {table.__name__}


def test_ids_are_unique():
    assert [id for id, count in Counter(case.id for case in CASES).items() if count > 1] == []


@pytest.mark.parametrize(
    "published",
    [
        "False-float32-True-1-4-32-16",
        "False-float32-True-4-2048-50304-1024",
        "False-bfloat16-True-1-4-32-16",
        "False-bfloat16-True-4-2048-50304-1024",
    ],
)
def test_the_seed_s_published_failures_are_cases_with_the_same_ids(published):
    case = get_case(f"seed_flce[{published}]")
    assert case.expected == "hazard"


def test_the_seed_s_bfloat16_rows_compute_in_float32_and_their_siblings_in_bfloat16():
    assert get_case("seed_flce[False-bfloat16-True-1-4-32-16]").args[0].dtype == "float32"
    assert get_case("bf16_flce[False-True-1-4-32-16]").args[0].dtype == "bfloat16"


@pytest.mark.parametrize(
    ("id", "expected"),
    [
        ("seed_flce[True-float32-True-4-2048-50304-1024]", "fresh"),
        ("seed_cross_entropy[hidden-3-4-8-0.9]", "fresh"),
        ("seed_cross_entropy[aliased-4-128-50304-0.5]", "fresh"),
        ("flce_modes[aliased-float32-True-1-4-32-16]", "fresh"),
        ("flce_modes[barrier-bfloat16-False-4-2048-50304-1024]", "fresh"),
        ("flce_modes[hidden-bfloat16-False-4-2048-50304-1024]", "hazard"),
        ("flce_modes[trivial-float32-True-1-4-32-16]", "fresh"),
        ("sharded_flce[batch-trivial]", "fresh"),
        ("sharded_flce[vocabulary-trivial]", {"loss": "fresh", "*": "stale"}),
        ("sharded_flce[fsdp-trivial]", {"loss": "fresh", "*": "stale"}),
        ("sharded_flce[fsdp-aliased]", "fresh"),
        ("sharded_flce[fsdp-shard_map]", "fresh"),
        ("sharded_flce[vocabulary-barrier]", {"loss": "fresh", "*": "stale"}),
        ("saved_residual[softmax-loss-hidden]", {"logits": "stale"}),
        ("saved_residual[softmax-perplexity-hidden]", "fresh"),
        ("saved_residual[exp-perplexity-hidden]", {"logits": "clobbered"}),
        ("saved_residual[exp-perplexity-aliased]", "fresh"),
        ("two_losses[rows-hidden]", {"other_loss": "latent", "*": "clobbered"}),
        ("two_losses[rows-aliased]", "fresh"),
        ("loop_carry[gradient-hidden]", "fresh"),
        ("loop_carry[descent-hidden]", "fresh"),
        ("undonated_parameter[kept-hidden]", "fresh"),
        ("constant[hidden]", "fresh"),
        ("dropped_backward[hidden]", {"loss": "fresh", "*": "stale"}),
        ("accumulated_sum[twice-hidden]", {"copy": "fresh", "*": "stale"}),
        ("barrier_copy[kernel-hidden]", {"updated": "stale"}),
        ("pallas_cross_entropy[bfloat16-hidden]", {"loss": "fresh", "*": "stale"}),
        ("pallas_cross_entropy[bfloat16-aliased]", "fresh"),
        ("same_buffer_twice[hidden]", {"squares": "fresh", "step": "latent"}),
        ("saved_residual[softmax-loss-out_of_place]", "fresh"),
        ("unknown_effect[hidden]", {"norm": "fresh", "*": "unknown"}),
    ],
)
def test_a_case_has_its_expectation(id, expected):
    assert get_case(id).expected == expected


@pytest.mark.parametrize(
    ("id", "rules"),
    [
        ("seed_cross_entropy[hidden-3-4-8-0.9]", ("LD006", "LD009")),
        ("seed_cross_entropy[aliased-3-4-8-0.9]", ()),
        ("undonated_parameter[kept-hidden]", ("LD006", "LD009")),
        ("undonated_parameter[donated-hidden]", ("LD006",)),
        ("constant[hidden]", ("LD006", "LD009", "LD017")),
        ("dropped_backward[hidden]", ("LD002", "LD006", "LD007")),
        ("loop_carry[descent-hidden]", ("LD006", "LD016")),
        ("two_losses[same-hidden]", ("LD002", "LD006", "LD008", "LD016")),
        ("accumulated_sum[unused-hidden]", ("LD002", "LD006", "LD007")),
        ("permuted_rows[aliased]", ("LD011", "LD016")),
        ("partial_write[range-pallas-out_of_place]", ("LD013", "LD016")),
        ("partial_write[nothing-pallas-aliased]", ()),
        ("unknown_effect[hidden]", ("LD014",)),
        ("seed_flce[False-float32-True-1-4-32-16]", None),
    ],
)
def test_a_case_has_its_expected_rules(id, rules):
    assert get_case(id).expected_rules == rules


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_expected_rules_exist(case):
    parse_expected_rules(case.expected_rules, beside=case.expected)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_every_case_has_an_expectation_and_a_reference(case):
    assert case.expected is not None
    assert case.reference is not None


@pytest.mark.parametrize("case", sharded_flce.CASES, ids=lambda case: case.id)
def test_every_split_dimension_is_a_multiple_of_its_mesh_axis(case):
    for arg in case.args:
        for size, axis in zip(arg.shape, arg.partition, strict=False):
            assert axis is None or size % case.mesh[axis] == 0


def test_listing_the_cases_starts_neither_jax_nor_triton():
    listing = (
        f"import sys, {', '.join(table.__name__ for table in TABLES)}; print({{'jax', 'triton'}} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", listing], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("mode", ["hidden", "trivial"])
@pytest.mark.parametrize("rest", ["False-1-4-32-16", "True-1-4-32-16", "True-4-2048-50304-1024"])
def test_the_lowest_rungs_have_the_expectations_of_the_seed_s_tables(mode, dtype, rest):
    trivial = mode == "trivial"
    row = f"seed_flce[{trivial}-float32-{rest}]" if dtype == "float32" else f"bf16_flce[{trivial}-{rest}]"
    rung, same = get_case(f"flce_modes[{mode}-{dtype}-{rest}]"), get_case(row)
    assert (rung.args, rung.expected, rung.expected_elsewhere) == (same.args, same.expected, same.expected_elsewhere)
    assert same.mitigation == mode
