"""One way of calling a Triton kernel that overwrites an operand, right with every generation of jax-triton.

    from ligerdiag.in_place import call_in_place

Needs nothing else of ligerdiag: copy it where the package is not wanted.
"""

import importlib
import inspect
from typing import Any

import jax

_jax: Any = jax
_triton_call: Any = importlib.import_module("jax_triton").triton_call
_HAS_REFS = "out_type" in inspect.signature(_triton_call).parameters  # jax-triton 0.4 and later
_hold: Any = _jax.lax.optimization_barrier  # XLA fuses such a call with slices around it, and forgets what a Ref is for


def call_in_place(*operands: Any, written: int, outputs: Any, **keywords: Any) -> Any:
    """Returns the kernel's outputs and then what the array `operands[written]` holds once the kernel has overwritten it.

    The kernel takes a pointer `declared_ptr` after those of its outputs and leaves it alone: jax-triton before 0.4 passes
    the overwritten operand's address there once more. `keywords` are those of `jax_triton.triton_call`.
    """
    if _HAS_REFS:
        held = [_hold(operand) if hasattr(operand, "shape") else operand for operand in operands]
        held[written] = _jax.new_ref(held[written])
        results = _triton_call(*held, out_type=tuple(outputs), declared_ptr=None, **keywords)
        return _hold((*results, _jax.freeze(held[written])))
    number = sum(hasattr(operand, "shape") for operand in operands[:written])  # among the arrays
    types = (*outputs, jax.ShapeDtypeStruct(operands[written].shape, operands[written].dtype))
    return tuple(_triton_call(*operands, out_shape=types, input_output_aliases={number: len(outputs)}, **keywords))
