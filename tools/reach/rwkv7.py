"""Drives pass-lin/RWKV7-Keras: steps of the chunkwise RWKV-7. The checkout on the path is the one before or after the
fix.
"""

from typing import Any

from ligerdiag import Arg, Case

ARRAY = Arg(shape=(1, 64, 2, 64))


def _use_jax() -> None:
    """Makes `ops` a package without running its own `__init__`, which queries the GPU and needs Keras."""
    import importlib.util
    import os
    import sys
    import types

    os.environ["KERAS_BACKEND"] = "jax"
    if "ops" not in sys.modules:
        found = importlib.util.find_spec("ops")
        assert found is not None
        package = sys.modules["ops"] = types.ModuleType("ops")
        package.__path__ = list(found.submodule_search_locations or ())
        answers = sys.modules["ops.get_jax_devices_info"] = types.ModuleType("ops.get_jax_devices_info")
        vars(answers).update(
            use_cuda_graph=False,
            device_capacity=True,
            is_intel_a770=False,
            is_nvidia=True,
            is_triton_shared_mem_enough=lambda *_, **__: True,
            check_shared_mem=lambda *_, **__: True,
        )
        sys.modules["ops.get_torch_devices_info"] = answers


def intra(*arrays: Any) -> dict[str, Any]:
    _use_jax()
    from ops.jax_kernel import chunk_A_fwd as library

    q, k, a, b, gi, ge = arrays
    words = {"q": q, "k": k, "a": a, "b": b, "gi": gi, "ge": ge, "scale": 1.0, "chunk_size": 16}
    if hasattr(library, "chunk_dplr_fwd_intra"):
        found = library.chunk_dplr_fwd_intra(**words)
    else:
        found = library.chunk_fwd_intra_dplr_fn(**words, head_first=False)
    return dict(zip(("Aab", "Aqk", "Aak", "Aqb", "qg", "kg", "ag", "bg"), found, strict=True))


def wy(ag: Any, v: Any, ak: Any, ab: Any) -> dict[str, Any]:
    _use_jax()
    from ops.jax_kernel import wy_fast_fwd as library

    before = not hasattr(library, "prepare_wy_repr_fwd")
    words = {"ag": ag, "v": v, "A_ak": ak, "A_ab": ab, "chunk_size": 16}
    found = library.fwd_prepare_wy_repr(**words, **({"head_first": False} if before else {}))
    return dict(zip(("w", "u", "A_ab_inv"), found, strict=True))


def state(*arrays: Any) -> dict[str, Any]:
    _use_jax()
    from ops.jax_kernel import chunk_A_fwd, chunk_h_fwd

    before = not hasattr(chunk_A_fwd, "chunk_dplr_fwd_intra")
    names = ("kg", "v", "w", "u", "bg", "gk")
    words = {**dict(zip(names, arrays, strict=True)), "output_final_state": True, "chunk_size": 16}
    found = chunk_h_fwd.chunk_dplr_fwd_h(**words, **({"head_first": False} if before else {}))
    return dict(zip(("h", "v_new", "final"), found, strict=True))


SMALL = Arg(shape=(1, 64, 2, 16))
CASES = (
    Case(name="rwkv7_intra", function=intra, args=(ARRAY,) * 6),
    Case(name="rwkv7_wy", function=wy, args=(ARRAY, ARRAY, SMALL, SMALL)),
    Case(name="rwkv7_state", function=state, args=(ARRAY,) * 6),
)
