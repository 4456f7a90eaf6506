"""NVIDIA/TransformerEngine: the kernels of its permutation for mixtures of experts, launched through jax-triton."""

import importlib.util
import os
from typing import Any

from ligerdiag import Arg, Case, Draw

TOKENS, EXPERTS, BLOCK = 64, 4, 64


def _load() -> Any:
    """The file with the kernels; the package around it needs TransformerEngine's library."""
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
    """Two passes: the second overwrites the map of the first. TransformerEngine's own launcher declares that as an alias;
    jax-triton's hands a kernel one more pointer for it, which these kernels do not take."""
    import jax
    import jax.numpy as jnp
    import jax_triton

    kernels = _load()
    words: dict[str, Any] = {
        "num_tokens": TOKENS,
        "stride_row_id_map_token": 2 * EXPERTS + 1,
        "stride_row_id_map_expert": 1,
        "BLOCK_SIZE": BLOCK,
        "grid": (EXPERTS, TOKENS // BLOCK),
    }
    first, second = kernels._row_id_map_pass_1_kernel, kernels._row_id_map_pass_2_kernel
    ids = jax.ShapeDtypeStruct((TOKENS, 2 * EXPERTS + 1), jnp.int32)
    sums = jax.ShapeDtypeStruct((EXPERTS,), jnp.int32)
    strides = {"stride_routing_map_token": EXPERTS, "stride_routing_map_expert": 1}
    found, sums = jax_triton.triton_call(routing, kernel=first, out_shape=(ids, sums), **strides, **words)
    jax_triton.triton_call(found, sums, kernel=second, out_shape=(), WORKSPACE_LOAD_WIDTH=4, **words)
    return {"map": found[:, :EXPERTS]}


ROUTING = Arg(shape=(TOKENS, EXPERTS), dtype="int32", draw=Draw(kind="randint", high=2))
CASE = Case(name="te_row_id_map", function=make_map, args=(ROUTING,))
