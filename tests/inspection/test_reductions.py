"""With less than a full artifact a verdict stays the same or becomes unknown, and never becomes the opposite."""

import pytest

from ligerdiag.model.findings import Verdict
from tests.inspection.conftest import Pairs
from tools.reductions import FORMS, Change, Comparison, Form, compare_forms

UNKNOWN = {
    "folded_constant one",
    "literal_operand seen",
    "merged_products first",
    "merged_products second",
    "own_backward_rule_missing gradient",
    "reshaped_operand forced",
    "reshaped_operand late",
    "residual gradient",
    "residual_beside_new gradient",
    "residual_inner_jit gradient",
    "shared_zeros first",
    "shared_zeros second",
    "sliced_operand whole",
    "unrolled_missing seen",
}
"""Outputs that a dump without tags says too little about."""


@pytest.fixture(scope="module")
def comparisons(pairs: Pairs) -> list[Comparison]:
    return [one for pair in pairs.values() for one in compare_forms(pair.tagged, pair.untagged, pair.effects)]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_no_form_contradicts_the_full_artifact(form: Form, comparisons: list[Comparison]) -> None:
    compared = [one for one in comparisons if one.form is form]
    assert len(compared) > 40
    assert [line for one in compared for line in one.find(Change.CONTRADICTS)] == []


@pytest.mark.parametrize("name", ["a dump", "a dump, no buffers"])
def test_a_dump_without_tags_leaves_few_outputs_unknown(name: str, comparisons: list[Comparison]) -> None:
    unknown = {
        f"{one.case} {output}"
        for one in comparisons
        if one.form.name == name
        for output, change in one.changes.items()
        if change is Change.UNKNOWN
    }
    assert unknown == UNKNOWN


def test_an_unknown_output_is_named_with_the_reason(comparisons: list[Comparison]) -> None:
    for one in comparisons:
        if one.form.name == "a dump":
            for output, change in one.changes.items():
                if change is Change.UNKNOWN:
                    assert any(f"`{output}`" in note for note in one.reduced.coverage.not_covered), (one.case, output)


def test_a_finding_does_not_name_an_output_that_is_unknown(comparisons: list[Comparison]) -> None:
    for one in comparisons:
        unknown = {name for name, verdict in one.reduced.outputs.items() if verdict is Verdict.UNKNOWN}
        for finding in one.reduced.findings:
            if finding.rule in ("LD001", "LD002", "LD003", "LD004"):
                assert not unknown & set(finding.outputs), (one.form.name, one.case, finding)


def test_the_same_readers_are_found_with_and_without_tags(comparisons: list[Comparison]) -> None:
    for one in comparisons:
        if one.form.name == "a dump" and set(one.changes.values()) == {Change.EQUAL}:
            full, reduced = (
                sorted((f.rule, f.outputs) for f in inspection.findings if f.rule < "LD005")
                for inspection in (one.full, one.reduced)
            )
            assert full == reduced, one.case


def test_missing_parts_of_a_dump_are_noted_if_there_is_a_hidden_write(comparisons: list[Comparison]) -> None:
    for one in comparisons:
        coverage, form = one.reduced.coverage, one.form
        assert coverage.buffer_assignment is form.buffers
        notes = "\n".join(coverage.not_covered)
        hidden = bool(coverage.hidden_writes)
        assert ("no buffer assignment" in notes) == (hidden and not form.buffers)
        assert ("operations that MLIR folded" in notes) == (hidden and form.program and not form.as_written)
        assert ("no module from before the optimizations" in notes) == (hidden and not form.program)
