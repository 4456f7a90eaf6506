"""Worker side: differences between the JAX versions that compile here, each in one function.

Where MLIR's own Python bindings differ, see `locations`; jax-triton's differences are handled where it is called.
"""

import importlib
from contextlib import AbstractContextManager
from typing import Any

import jax
from jax.sharding import Mesh


def enter_mesh(mesh: Mesh) -> AbstractContextManager[Any]:
    """Makes it the mesh of what is traced: `jax.set_mesh` since 0.7, `jax.sharding.use_mesh` since 0.5, else `with mesh`."""
    library: Any = jax
    enter = getattr(library, "set_mesh", None) or getattr(library.sharding, "use_mesh", None)
    return mesh if enter is None else enter(mesh)


def get_lowering_rule(entry: Any) -> Any:
    """Returns the rule of an entry of the table of lowerings: since 0.5 or so the entry is a record that holds the
    rule."""
    return getattr(entry, "rule", entry)


def get_type(value: Any) -> Any:
    """Returns the abstract value of an array or tracer: `jax.typeof` since 0.6, `jax.core.get_aval` before."""
    library: Any = jax
    return (getattr(library, "typeof", None) or library.core.get_aval)(value)


def translate_to_hlo(text: str) -> bytes:
    """Serialized HloModuleProto of a StableHLO module; raises what jaxlib's translation raises."""
    library: Any = _import_first("jaxlib._jax", "jaxlib.xla_extension")  # the latter up to jaxlib 0.6
    return library.mlir.mlir_module_to_xla_computation(text, False, False).as_serialized_hlo_module_proto()


def _import_first(*names: str) -> Any:
    for name in names[:-1]:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError:
            continue
    return importlib.import_module(names[-1])
