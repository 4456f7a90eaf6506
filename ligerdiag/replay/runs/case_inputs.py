"""The arguments and the reference of a case, computed by JAX on the CPU."""

from collections.abc import Mapping
from functools import cache as remember
from typing import Any

import jax
import numpy as np

from ligerdiag.compile.cases.arguments import compute_output_names, draw_arguments
from ligerdiag.errors import LigerdiagError, describe_fault
from ligerdiag.model.case import Case
from ligerdiag.replay.ops.scope import Array
from ligerdiag.replay.runs.case_run import CaseInputs

_QUICK_COMPILE = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
"""Saves 0.1 s of processor time on a small reference."""
_MANY_ELEMENTS = 1 << 20
"""Elements of all arguments above which running a reference without LLVM's optimisation takes longer than compiling it
saves."""


def compute_case_inputs(case: Case) -> CaseInputs:
    """Returns the case's arguments and reference. Raises LigerdiagError if they cannot be computed."""
    arguments = draw_arguments(case)
    return CaseInputs(
        arguments=_flatten(arguments),
        find_reference=remember(lambda: None if case.reference is None else _run_reference(case, arguments)),
    )


def draw_arrays(case: Case, draw: int = 0) -> tuple[Array, ...]:
    """Returns the leaves of the case's arguments, for that draw."""
    return _flatten(draw_arguments(case, draw))


def compute_reference(case: Case, draw: int = 0) -> Mapping[str, Array]:
    """Returns the outputs of the case's reference by name, for that draw of the arguments, with products in full
    precision."""
    return _run_reference(case, draw_arguments(case, draw))


def _flatten(arguments: tuple[Any, ...]) -> tuple[Array, ...]:
    return tuple(np.asarray(leaf) for leaf in jax.tree.leaves(arguments))


def _run_reference(case: Case, arguments: tuple[Any, ...]) -> Mapping[str, Array]:
    assert case.reference is not None
    library: Any = jax
    elements = sum(np.size(leaf) for leaf in jax.tree.leaves(arguments))
    with library.default_matmul_precision("highest"):
        try:
            lowered = library.jit(case.reference).lower(*arguments)
        except Exception as fault:
            hint = ", and it has no mesh: write it without shards" if case.mesh else ""
            raise LigerdiagError(f"the reference raises{hint}: {describe_fault(fault)}") from fault
        compiled = lowered.compile(compiler_options=_QUICK_COMPILE if elements < _MANY_ELEMENTS else None)
        results = compiled(*arguments)
    return dict(zip(compute_output_names(results), map(np.asarray, jax.tree.leaves(results)), strict=True))
