"""JAX before 0.6.2 sorts the operations that it differentiates, which may move one across a kernel that overwrites its
operand.
"""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ligerdiag.api import CheckOptions, check
from ligerdiag.artifacts.artifact import ANY_OPERAND, Artifact, Provenance
from ligerdiag.codec import decode_record, encode_record
from ligerdiag.compile.lowering import traced_calls
from ligerdiag.inspection.compilation import inspect_artifact
from ligerdiag.model.findings import Verdict
from ligerdiag.model.report import Status
from tests.compile.test_other_toolchains import CASES, require

KERNEL, OTHER = object(), object()


def make_recipe(number: object, operands: str, primitive: object = OTHER, **params: Any) -> Any:
    tracers = [TRACERS[name] for name in operands]
    return SimpleNamespace(eqn_id=number, in_tracers=tracers, primitive=primitive, params=params)


TRACERS = {name: SimpleNamespace(recipe=SimpleNamespace(val=None)) for name in "abc"}


def find_crossed(*recipes: Any) -> set[int]:
    return set(traced_calls._find_crossed(recipes, [KERNEL]))


def test_an_operation_that_shares_a_kernel_s_operand_and_changed_sides_is_found() -> None:
    assert find_crossed(make_recipe(0, "ab", KERNEL), make_recipe(1, "b")) == set()
    assert find_crossed(make_recipe(1, "b"), make_recipe(0, "ab", KERNEL)) == {1}
    assert find_crossed(make_recipe(1, "c"), make_recipe(0, "ab", KERNEL)) == set(), "they share nothing"
    assert find_crossed(make_recipe(0, "aa", KERNEL), make_recipe(1, "b"), make_recipe(-1, "a")) == {0, 1}
    assert find_crossed(make_recipe(object(), "a"), make_recipe(0, "ab", KERNEL)) == {0}, "traced at any time"
    kernel = make_recipe(0, "a", KERNEL)
    body = SimpleNamespace(eqns=[kernel])
    inner = make_recipe(0, "ab", OTHER, call_jaxpr=body)
    assert [*traced_calls._find_crossed([make_recipe(1, "a"), inner], [KERNEL])] == []


def test_a_constant_with_several_tracers_is_one_value() -> None:
    value = object()
    first, second = (SimpleNamespace(recipe=SimpleNamespace(val=value)) for _ in range(2))
    kernel = SimpleNamespace(eqn_id=0, in_tracers=[first], primitive=KERNEL, params={})
    reader = SimpleNamespace(eqn_id=1, in_tracers=[second], primitive=OTHER, params={})
    assert find_crossed(reader, kernel) == {0}


def test_outputs_that_depend_on_a_crossed_operand_are_unknown_with_a_reason(seed: Artifact) -> None:
    def inspect(*crossed: int) -> Any:
        provenance = replace(seed.provenance, crossed_operands=crossed)
        return inspect_artifact(replace(seed, provenance=provenance), effects_cache=None)

    assert {*inspect().outputs.values(), *inspect(7).outputs.values()} == {Verdict.FRESH, Verdict.LATENT, Verdict.STALE}
    for crossed in ((0,), (ANY_OPERAND,)):
        inspection = inspect(*crossed)
        assert set(inspection.outputs.values()) == {Verdict.FRESH, Verdict.UNKNOWN}
        assert inspection.outputs["loss"] is Verdict.FRESH, "it depends on no operand"
        assert any("so the intended order is unknown" in one for one in inspection.coverage.not_covered)


@pytest.fixture(scope="module")
def seed(shared_cache: Path) -> Artifact:
    from ligerdiag.artifacts.artifact import load_artifact

    row = f"{CASES / 'seed_flce.py'}::seed_flce[False-float32-True-1-4-32-16]"
    (case,) = check(CheckOptions(selectors=(row,), replay=False, cache_directory=shared_cache)).cases
    assert case.artifact is not None
    return load_artifact(Path(case.artifact))


def test_an_artifact_without_the_field_is_still_read(seed: Artifact) -> None:
    fields = encode_record(seed.provenance)
    del fields["crossed_operands"]
    assert decode_record(Provenance, fields) == replace(seed.provenance, crossed_operands=None)


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["jax-0.5.3", "jax-0.6.1"])
def test_a_release_that_sorts_makes_reads_across_a_kernel_unknown(name: str) -> None:
    require(name)
    rows = tuple(f"{CASES / 'bf16_flce.py'}::bf16_flce[{mode}-True-1-4-32-16]" for mode in ("False", "True"))
    hidden, trivial = check(CheckOptions(selectors=rows, toolchain=name, replay=False)).cases
    assert hidden.status is Status.INCONCLUSIVE
    assert {hidden.outputs[one] for one in ("bias", "input", "weight")} == {Verdict.UNKNOWN}
    assert trivial.outputs["input"] is Verdict.STALE, "a workaround binds the order, and JAX keeps it"
