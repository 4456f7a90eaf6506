"""Runs an author's program as Python does: eager JAX on CPUs, each in-place kernel on its operand's own bytes.

This knows nothing of XLA, of StableHLO or of how ligerdiag determines the intent: it is an independent witness of it.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any

import jax
import numpy as np

from ligerdiag.compile.cases.arguments import compute_output_names
from tests.witness.kernels import run_kernels_in_place
from tests.witness.own_storage import copy_tree, give_loops_their_own_storage
from tests.witness.saved_values import keep_saved_values


def run_eagerly(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    *,
    saved_values: bool = True,
    early: bool = False,
    around: AbstractContextManager[Any] | None = None,
) -> dict[str, np.ndarray[Any, Any]]:
    """Returns the outputs by name.

    With `saved_values`, the values that JAX's own rules save for the backward pass keep their contents; without, a
    backward pass reads what a kernel has made of them since. For `early` see `keep_saved_values`. `around` is entered
    for the run, after the patches of this module.
    """
    with ExitStack() as stack:
        stack.enter_context(jax.disable_jit())
        stack.enter_context(run_kernels_in_place())
        stack.enter_context(give_loops_their_own_storage())
        if saved_values:
            stack.enter_context(keep_saved_values(early=early))
        stack.enter_context(around or nullcontext())
        results = function(*copy_tree(tuple(arguments)))
        found = [np.array(leaf) for leaf in jax.tree.leaves(results)]
    return dict(zip(compute_output_names(results), found, strict=True))
