"""Compares the eager run of a case with the intended program that a replay computes, on the same drawn arguments.

This runs in a separate process: see `process`.
"""

import os
import warnings
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from math import inf
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ligerdiag.artifacts.artifact import Artifact, load_artifact
from ligerdiag.compile.cases.arguments import build_argument_specs, draw_arguments
from ligerdiag.compile.cases.loader import CaseLoader
from ligerdiag.compile.lowering.jax_versions import enter_mesh
from ligerdiag.errors import describe_fault
from ligerdiag.model.case import Case
from ligerdiag.model.jobs import Source
from ligerdiag.replay.ops.scope import NotCoveredError
from ligerdiag.replay.runs.attribution import compare_output, compute_error
from ligerdiag.replay.runs.case_run import CaseRuns, compute_tolerances, load_programs, replay_programs
from ligerdiag.replay.runs.kernels import KernelRunner
from tests.witness.contradictions import is_alike
from tests.witness.eager import run_eagerly


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The results of one case by output name; errors are relative, in norm."""

    intended: Mapping[str, float] = field(default_factory=dict[str, float])
    """Errors of the replay's intended program, relative to the eager run."""
    unkept: Mapping[str, float] = field(default_factory=dict[str, float])
    """Errors of the eager run in which JAX's rules read saved values as they are now, relative to the other one."""
    tolerances: Mapping[str, float] = field(default_factory=dict[str, float])
    attributions: Mapping[str, str] = field(default_factory=dict[str, str])
    """Attributions of the schedule's outputs if the eager run is right."""
    replayed: Mapping[str, str] = field(default_factory=dict[str, str])
    """The same if the replay's intended program is right."""
    unreached: tuple[str, ...] = ()
    """As in `Replay.unreached`."""
    not_covered: str = ""
    """The reason if there is no comparison."""

    @property
    def disagreements(self) -> dict[str, float]:
        """Returns the errors of outputs whose intended value the witness contradicts."""
        return {n: error for n, error in self.intended.items() if not error <= self.tolerances[n]}

    @property
    def overwritten_saves(self) -> dict[str, float]:
        """Returns the errors of outputs that depend on a value that JAX's own rules saved and a kernel then overwrote."""
        return {n: error for n, error in self.unkept.items() if not error <= self.tolerances[n]}


LARGE_ERROR = 1e-3
"""Relative error above which two orders of computation count as different programs."""


def compare_in_process(source: Source, case_id: str, directory: str) -> Mapping[str, Any]:
    """Returns the fields of the Comparison for the artifact in that directory; call it in a separate process.

    It does not return the Comparison, because loading a case unloads the project's modules, including this one.
    """
    case = CaseLoader().load(source)[case_id]
    try:
        return asdict(compare_case(case, load_artifact(Path(directory))))
    except NotCoveredError as error:
        return asdict(Comparison(not_covered=f"replay: {error}"))


def compare_case(case: Case, artifact: Artifact) -> Comparison:
    """Returns the comparison; raises NotCoveredError if the replay does not cover the case."""
    programs = load_programs(artifact)
    drawn = draw_arguments(case)
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(drawn)]
    with (
        np.errstate(all="ignore"),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        runs = replay_programs(programs, leaves, KernelRunner())
        try:
            kept, unkept = (run_case(case, saved_values=saved_values) for saved_values in (True, False))
            if (
                _find_largest_difference(runs.intended, kept) > LARGE_ERROR
                and _find_largest_difference(runs.intended, early := run_case(case, early=True)) <= LARGE_ERROR
            ):
                kept = early
        except Exception as fault:
            if os.environ.get("WITNESS_RAISE"):
                raise
            return Comparison(not_covered=f"witness: {describe_fault(fault)}")
    tolerances = compute_tolerances(programs, runs.intended)
    return Comparison(
        intended={name: compute_difference(array, kept[name]) for name, array in runs.intended.items()},
        unkept={name: compute_difference(unkept[name], array) for name, array in kept.items()},
        tolerances=tolerances,
        attributions=_attribute(runs, kept, tolerances),
        replayed=_attribute(runs, runs.intended, tolerances),
        unreached=runs.unreached,
    )


def compute_difference(one: Any, other: Any) -> float:
    """Returns the relative error in norm of the finite elements, or infinity if different elements are finite."""
    if one.shape != other.shape:
        return inf
    if other.dtype.kind in "biu":
        return compute_error(one, other)
    first, second = np.asarray(one, np.complex128), np.asarray(other, np.complex128)
    finite = np.isfinite(second)
    if not np.array_equal(np.isfinite(first), finite):
        return inf
    scale = np.linalg.norm(second[finite])
    return float(np.linalg.norm((first - second)[finite]) / (scale or 1.0))


def _find_largest_difference(intended: Mapping[str, Any], eager: Mapping[str, Any]) -> float:
    return max(compute_difference(array, eager[name]) for name, array in intended.items())


def _attribute(runs: CaseRuns, right: Mapping[str, Any], tolerances: Mapping[str, float]) -> dict[str, str]:
    """Returns the attributions, or `alike` if a fresh output and a stale one would be the same."""
    found: dict[str, str] = {}
    for name, copies in runs.actual.items():
        numbers = compare_output(copies[0], right[name], runs.stale[name], tolerance=tolerances[name])
        found[name] = "alike" if is_alike(numbers.attribution, numbers) else numbers.attribution.value
    return found


def run_case(
    case: Case,
    *,
    draw: int = 0,
    saved_values: bool = True,
    early: bool = False,
    around: AbstractContextManager[Any] | None = None,
) -> dict[str, np.ndarray[Any, Any]]:
    """Returns the outputs as Python computes them, with arguments drawn as for a replay, on a mesh of CPUs."""
    arguments = draw_arguments(case, draw)
    mesh = _build_mesh(case)
    if mesh is not None:
        specs = build_argument_specs(case, mesh)
        arguments = jax.device_put(arguments, jax.tree.map(lambda spec: spec.sharding, specs))
    with enter_mesh(mesh) if mesh is not None else nullcontext(), jax.default_matmul_precision("highest"):
        return run_eagerly(case.function, arguments, saved_values=saved_values, early=early, around=around)


def _build_mesh(case: Case) -> Any:
    if not case.mesh:
        return None
    sizes = tuple(case.mesh.values())
    count = int(np.prod(sizes))
    if count > len(jax.devices()):
        raise NotCoveredError(f"a mesh of {count} devices")
    return jax.sharding.Mesh(np.array(jax.devices()[:count]).reshape(sizes), tuple(case.mesh))
