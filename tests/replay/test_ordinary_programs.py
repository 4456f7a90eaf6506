"""Tests the interpreter: ordinary programs, as written and as scheduled for a GPU, against XLA:CPU.

Equal up to f32 rounding: 1e-5 in norm is 80 times the last bit of f32, enough for sums of a few hundred terms in
another order and for exponentials and logarithms that differ by a few ulp.
"""

import functools
import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from ligerdiag.artifacts.artifact import Artifact
from ligerdiag.artifacts.cache import Cache
from ligerdiag.compile.cases.arguments import draw_arguments
from ligerdiag.compile.compile_service import compile_cases, discover_cases
from ligerdiag.hlo.custom_calls import CallTrait, is_call_with
from ligerdiag.hlo.module import HloInstruction
from ligerdiag.hlo.parse import load_hlo
from ligerdiag.replay.runs.program import run_program
from ligerdiag.replay.runs.schedule import ScheduleRunner
from ligerdiag.toolchains.gpu_targets import load_target
from ligerdiag.workers.pool import Pool
from tests.replay.programs import array_operations, control_flow, layers, training

ROUNDING = 1e-5
FILES = (array_operations, control_flow, layers, training)
CASES = {case.id: case for file in FILES for case in file.CASES}
NIGHTLY = {
    "transformer_scan",
    "transformer_unrolled", "transformer_remat", "transformer_scan_remat_untied", "optimizer_adam", "optimizer_momentum",
    "optimizer_lion", "optimizer_schedule", "optimizer_adafactor", "optimizer_adamw", "mlp_sgd", "sort_pairs",
    "causal_attention", "random_choice", "beams", "newton", "rearranged", "lstm", "batch_norm", "embedding", "decode_step",
    "clipped_and_averaged", "hessian_vector", "log_softmax_loss", "accumulated", "dropout", "reversed_scan",
}  # fmt: skip
"""The slowest ones, whose operations another program has too."""


class NoKernels:
    """Fails if a program launches a kernel: these programs have none."""

    def runs(self, instruction: HloInstruction) -> bool:
        return is_call_with(instruction, CallTrait.CARRIES_TRITON)

    def launch(self, call: HloInstruction, operands: Sequence[Any], outputs: Sequence[Any], *, watched: bool) -> None:
        raise AssertionError(call.name)


@pytest.fixture(scope="module")
def compile_level(shared_cache: Path) -> Iterator[Callable[[bool], Mapping[str, Artifact]]]:
    """Returns the artifacts of the daily or of the nightly programs, by case id."""
    with Pool(cache=Cache(shared_cache)) as pool:
        specs = discover_cases([str(file.__file__) for file in FILES], pool=pool)

        @functools.cache
        def compile_them(is_nightly: bool) -> Mapping[str, Artifact]:
            chosen = [spec for spec in specs if (spec.id in NIGHTLY) == is_nightly]
            results = compile_cases(chosen, [load_target("h100")], pool=pool)
            return {result.case.id: result.artifact for result in results if result.artifact is not None}

        yield compile_them


def compute_error(actual: Any, wanted: Any) -> float:
    """Returns the relative error in norm over the finite elements; NaN if other elements are finite in one of the two."""
    one, two = (np.asarray(a, np.complex128).ravel() for a in (actual, wanted))
    finite = np.isfinite(two)
    if (np.isfinite(one) != finite).any() or actual.dtype != wanted.dtype or actual.shape != wanted.shape:
        return float("nan")
    scale = np.linalg.norm(two[finite])
    return float(np.linalg.norm((one - two)[finite]) / (scale or 1.0))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.nightly) if name in NIGHTLY else name for name in CASES]
)
def test_replay_equals_xla_cpu(name: str, compile_level: Callable[[bool], Mapping[str, Artifact]]) -> None:
    case, artifact = CASES[name], compile_level(name in NIGHTLY)[name]
    arguments = [np.asarray(leaf) for leaf in jax.tree.leaves(draw_arguments(case))]
    wanted = [np.asarray(leaf) for leaf in jax.tree.leaves(jax.jit(case.function)(*draw_arguments(case)))]
    program, _ = load_hlo(artifact.as_written)
    optimized, buffers = load_hlo(artifact.optimized)
    assert buffers is not None
    with np.errstate(all="ignore"):
        as_written = run_program(program, arguments, NoKernels())
        as_scheduled = ScheduleRunner(module=optimized, buffers=buffers, kernels=NoKernels()).execute([arguments])[0]
    assert len(as_written) == len(as_scheduled) == len(wanted)
    for one, other, right in zip(as_written, as_scheduled, wanted, strict=True):
        assert compute_error(one, right) <= ROUNDING
        assert compute_error(other, right) <= ROUNDING


def test_there_are_many_programs_with_distinct_names() -> None:
    assert len(CASES) == sum(len(file.CASES) for file in FILES)
    assert len(CASES) >= 30
