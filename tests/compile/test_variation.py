"""A variation is part of the compiled program, its key and its provenance."""

from pathlib import Path

import pytest

from ligerdiag.compile.compile_service import CompileResult, compile_cases, discover_cases
from ligerdiag.errors import InputError
from ligerdiag.model.jobs import CaseSpec, Variation
from ligerdiag.toolchains.gpu_targets import Target
from ligerdiag.workers.pool import Pool

PROGRAMS = Path(__file__).parent / "programs"
TWICE, WHOLE = "5.0:6.1", "5.0:7.3"


@pytest.fixture(scope="module")
def case(pool: Pool) -> CaseSpec:
    (found,) = discover_cases(["readers.py::read_beside"], pool=pool, directory=PROGRAMS)
    return found


def compile_it(case: CaseSpec, variation: Variation, pool: Pool, target: Target) -> CompileResult:
    (result,) = compile_cases([case], [target], pool=pool, variation=variation)
    return result


def key_of(case: CaseSpec, variation: Variation, pool: Pool, target: Target) -> str:
    result = compile_it(case, variation, pool, target)
    assert result.artifact is not None, result.error
    return result.artifact.provenance.key


def test_the_default_is_no_variation(case: CaseSpec, pool: Pool, h100: Target) -> None:
    plain = key_of(case, Variation(), pool, h100)
    (result,) = compile_cases([case], [h100], pool=pool)
    assert result.artifact is not None
    assert (result.cached, result.artifact.provenance.key) == (True, plain)
    assert result.artifact.provenance.ties == ()


def test_each_set_of_ties_and_each_flag_gives_another_artifact(case: CaseSpec, pool: Pool, h100: Target) -> None:
    variations = (
        Variation(),
        Variation(ties=(TWICE,)),
        Variation(ties=(WHOLE,)),
        Variation(ties=(TWICE, WHOLE)),
        Variation(flags={"xla_gpu_enable_latency_hiding_scheduler": True}),
    )
    assert len({key_of(case, variation, pool, h100) for variation in variations}) == len(variations)


def test_the_order_of_ties_does_not_matter(case: CaseSpec, pool: Pool, h100: Target) -> None:
    key_of(case, Variation(ties=(TWICE, WHOLE)), pool, h100)
    again = compile_it(case, Variation(ties=(WHOLE, TWICE, WHOLE)), pool, h100)
    assert again.cached
    assert again.artifact is not None
    assert again.artifact.provenance.ties == (TWICE, WHOLE)


def test_an_unknown_reader_is_an_error_that_lists_the_readers(case: CaseSpec, pool: Pool, h100: Target) -> None:
    error = compile_it(case, Variation(ties=("5.0:99.0",)), pool, h100).error
    assert isinstance(error, InputError)
    assert str(error) == (
        "case `read_beside` has no reader `5.0:99.0`; the readers that can be tied to a kernel: "
        "`5.0:6.0`, `5.0:6.1`, `5.0:7.3`"
    )


@pytest.mark.parametrize(
    ("name", "tie", "reason"),
    [
        ("run_in_a_branch", "14.0:16.0", "the kernel is inside a `stablehlo.case`"),
        ("overwrite_integers", "7.0:10.0", "the kernel returns no floating-point array"),
    ],
)
def test_a_reader_that_cannot_be_tied_is_refused(name: str, tie: str, reason: str, pool: Pool, h100: Target) -> None:
    (case,) = discover_cases([f"readers.py::{name}"], pool=pool, directory=PROGRAMS)
    error = compile_it(case, Variation(ties=(tie,)), pool, h100).error
    assert isinstance(error, InputError)
    assert str(error).startswith(f"reader `{tie}` of case `{name}` cannot be made to run after the kernel `")
    assert f"`: {reason}" in str(error)
