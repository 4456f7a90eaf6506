"""Drives NVIDIA/TransformerEngine: its permutation kernels for mixtures of experts, launched through jax-triton."""

import importlib.util
import os
from typing import Any

from ligerdiag import Arg, Case, Draw

TOKENS, EXPERTS, BLOCK = 64, 4, 64


def _load() -> Any:
    """Imports the file with the kernels alone: its package needs TransformerEngine's library."""
    for folder in os.environ["PYTHONPATH"].split(os.pathsep):
        path = os.path.join(folder, "transformer_engine/common/triton/permutation.py")
        if os.path.exists(path):
            specification = importlib.util.spec_from_file_location("permutation", path)
            assert specification is not None
            assert specification.loader is not None
            module = importlib.util.module_from_spec(specification)
            specification.loader.exec_module(module)
            return module
    raise ModuleNotFoundError("transformer_engine/common/triton/permutation.py")


def make_map(routing: Any) -> dict[str, Any]:
    """Runs the first of its passes. The second pass overwrites the map of the first; TransformerEngine's own launcher
    declares that. jax-triton's launcher would pass one more pointer for it, which these kernels do not take.
    """
    import jax
    import jax.numpy as jnp
    import jax_triton

    ids = jax.ShapeDtypeStruct((TOKENS, 2 * EXPERTS + 1), jnp.int32)
    sums = jax.ShapeDtypeStruct((EXPERTS,), jnp.int32)
    strides = (EXPERTS, 1, 2 * EXPERTS + 1, 1)
    found, sums = jax_triton.triton_call(
        routing,
        TOKENS,
        *strides,
        kernel=_load()._row_id_map_pass_1_kernel,
        out_shape=(ids, sums),
        grid=(EXPERTS, TOKENS // BLOCK),
        BLOCK_SIZE=BLOCK,
    )
    return {"map": found[:, :EXPERTS], "sums": sums}


ROUTING = Arg(shape=(TOKENS, EXPERTS), dtype="int32", draw=Draw(kind="randint", high=2))
CASE = Case(name="te_row_id_map", function=make_map, args=(ROUTING,))
