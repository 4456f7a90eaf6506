"""Computes the arguments of a case and the outputs of its reference function, with JAX on the CPU."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache as remember
from typing import Any

import jax
import numpy as np

from ligerdiag.compile.cases.arguments import compute_output_names, draw_arguments, read_numbers
from ligerdiag.errors import LigerdiagError, describe_fault
from ligerdiag.model.case import Arg, Case, Draw
from ligerdiag.replay.ops.scope import Array
from ligerdiag.replay.runs.case_run import CaseInputs

_QUICK_COMPILE = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
"""Compiler options that save 0.1 s of processor time for a small reference function."""
_MANY_ELEMENTS = 1 << 20
"""Number of elements of all arguments above which a reference is compiled with LLVM's optimisations: running it without
them would take longer than compiling saves.
"""


def compute_case_inputs(case: Case) -> CaseInputs:
    """Draws the case's arguments and returns them with the outputs of the case's reference. A reference is a function
    that computes the outputs independently. It runs only when its outputs are first needed. Raises LigerdiagError if
    the arguments cannot be drawn.
    """
    arguments = draw_arguments(case)
    return CaseInputs(
        arguments=_flatten(arguments),
        find_reference=remember(lambda: None if case.reference is None else _run_reference(case, arguments)),
    )


def draw_arrays(case: Case, draw: int = 0) -> tuple[Array, ...]:
    """Draws the case's arguments and returns their leaves.

    draw: number of the set of random arguments; a replay uses 0.
    """
    return _flatten(draw_arguments(case, draw))


def draw_mirrored(case: Case) -> tuple[Array, ...]:
    """Draws the case's arguments, flips the sign of the normally distributed ones, and returns their leaves. A branch
    on the sign of a sum then takes the opposite side.
    """
    mirrored = jax.tree.map(_mirror, case.args, is_leaf=lambda leaf: isinstance(leaf, Arg))
    return _flatten(draw_arguments(replace(case, args=mirrored)))


def _mirror(arg: Arg) -> Arg:
    draw = arg.draw
    if not isinstance(draw, Draw) or draw.kind not in ("usual", "normal"):
        return arg
    return replace(arg, draw=replace(draw, scale=-draw.scale))


def compute_reference(case: Case, draw: int = 0) -> Mapping[str, Array]:
    """Runs the case's reference function on one set of random arguments and returns its outputs by name. Matrix
    products have full precision. draw: number of the set of arguments.
    """
    return _run_reference(case, draw_arguments(case, draw))


def _flatten(arguments: tuple[Any, ...]) -> tuple[Array, ...]:
    return tuple(map(read_numbers, jax.tree.leaves(arguments)))


def _run_reference(case: Case, arguments: tuple[Any, ...]) -> Mapping[str, Array]:
    assert case.reference is not None
    library: Any = jax
    elements = sum(np.size(leaf) for leaf in jax.tree.leaves(arguments))
    with library.default_matmul_precision("highest"):
        try:
            lowered = library.jit(case.reference).lower(*arguments)
        except Exception as fault:
            hint = ", perhaps because it runs without a mesh (write it without shards)" if case.mesh else ""
            raise LigerdiagError(f"the case's reference function raises{hint}: {describe_fault(fault)}") from fault
        compiled = lowered.compile(compiler_options=_QUICK_COMPILE if elements < _MANY_ELEMENTS else None)
        results = compiled(*arguments)
    return dict(zip(compute_output_names(results), map(read_numbers, jax.tree.leaves(results)), strict=True))
