"""Calls a Triton kernel that overwrites operands, in any mode, through either generation of jax-triton.

The kernel takes, in this order: its operands, its outputs, a destination for each operand that it
overwrites, its constexprs. It stores the new contents of an overwritten operand to its destination, or over the operand
itself if that is None. The destination is `destination_ptr` where there is one, and `destination_0_ptr`,
`destination_1_ptr`, ... where there are several.

The generations differ:

- jax-triton < 0.4 declares an overwritten operand by `input_output_aliases`, and passes the kernel one more pointer
  for the aliased output (the same address again).
- jax-triton >= 0.4 takes a `jax.Ref` for it, and passes no other pointer.

The generation is detected once, at import: the newer `triton_call` has `out_type`.
"""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax_triton
from triton.runtime.interpreter import InterpretedFunction

from kernels.interpreter import interpreted_call, interpreted_read_only_call
from kernels.modes import UNDECLARED, Mode

type Outputs = tuple[jax.ShapeDtypeStruct, ...]
type Written = tuple[int, ...]
type Arrays = tuple[jax.Array, ...]
type Results = tuple[Arrays, Arrays]
"""The kernel's outputs, and the new contents of the overwritten operands."""


def inplace_call(
    kernel: Any,
    *operands: jax.Array,
    written: int,
    outputs: Sequence[jax.ShapeDtypeStruct],
    grid: tuple[int, ...],
    mode: Mode,
    num_warps: int = 4,
    **metaparams: Any,
) -> tuple[Arrays, jax.Array]:
    """Returns the kernel's outputs, and the array that has the new contents of `operands[written]` in this mode (see
    `kernels.modes.Mode`).

    Does the same as `overwriting_call`, for a kernel that overwrites a single operand.
    """
    results, (contents,) = overwriting_call(
        kernel,
        *operands,
        written=(written,),
        outputs=outputs,
        grid=grid,
        mode=mode,
        num_warps=num_warps,
        **metaparams,
    )
    return results, contents


def overwriting_call(
    kernel: Any,
    *operands: jax.Array,
    written: Sequence[int],
    outputs: Sequence[jax.ShapeDtypeStruct],
    grid: tuple[int, ...],
    mode: Mode,
    num_warps: int = 4,
    **metaparams: Any,
) -> Results:
    """Returns the kernel's outputs, and for each of the `written` operands the array that has its new contents in this mode
    (see `kernels.modes.Mode`).

    written: the numbers of the operands that the kernel overwrites; () for a kernel that only reads, which is called in the
    same way in every mode. A kernel made under TRITON_INTERPRET=1 runs on the CPU, in the modes that declare the write; the
    other modes raise ValueError. `metaparams` go to the kernel's constexprs.
    """
    mode = Mode(mode) if written else Mode.OUT_OF_PLACE
    for number in written:
        if not 0 <= number < len(operands):
            raise ValueError(f"Expected the number of an operand in [0, {len(operands)}) but got written={number}")
    written, outputs = tuple(written), tuple(outputs)
    if isinstance(kernel, InterpretedFunction):
        return interpreted_call(
            kernel,
            operands,
            written=written,
            destinations=_name_destinations(written),
            outputs=outputs,
            grid=grid,
            mode=mode,
            metaparams=metaparams,
        )
    call = _CALL[mode]
    results, contents = call(kernel, operands, written, outputs, {"grid": grid, "num_warps": num_warps} | metaparams)
    match mode:
        case Mode.TRIVIAL:
            total = jax.lax.stop_gradient(results[0].sum())
            contents = tuple(_add_and_subtract(array, total.astype(array.dtype)) for array in contents)
        case Mode.BARRIER:
            contents, results = jax.lax.optimization_barrier((contents, results))
        case Mode.HIDDEN | Mode.ALIASED | Mode.OUT_OF_PLACE:
            pass
    return results, contents


def _name_destinations(written: Written) -> tuple[str, ...]:
    if len(written) == 1:
        return ("destination_ptr",)
    return tuple(f"destination_{number}_ptr" for number in range(len(written)))


def _add_and_subtract(array: jax.Array, total: jax.Array) -> jax.Array:
    array = array + total
    return array - total


def _like(array: jax.Array) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(array.shape, array.dtype)


def _call_undeclared(
    kernel: Any, operands: Any, written: Written, outputs: Outputs, keywords: dict[str, Any]
) -> Results:
    destinations = dict.fromkeys(_name_destinations(written))
    results = jax_triton.triton_call(
        *operands, kernel=kernel, **destinations, **{_OUTPUTS_KEYWORD: outputs}, **keywords
    )
    return results, tuple(operands[number] for number in written)


def _call_out_of_place(
    kernel: Any, operands: Any, written: Written, outputs: Outputs, keywords: dict[str, Any]
) -> Results:
    all_outputs = (*outputs, *(_like(operands[number]) for number in written))
    results = tuple(jax_triton.triton_call(*operands, kernel=kernel, **{_OUTPUTS_KEYWORD: all_outputs}, **keywords))
    return results[: len(outputs)], results[len(outputs) :]


def _call_with_alias(
    kernel: Any, operands: Any, written: Written, outputs: Outputs, keywords: dict[str, Any]
) -> Results:
    aliases = {number: len(outputs) + position for position, number in enumerate(written)}
    return _call_out_of_place(kernel, operands, written, outputs, keywords | {"input_output_aliases": aliases})


def _call_with_ref(kernel: Any, operands: Any, written: Written, outputs: Outputs, keywords: dict[str, Any]) -> Results:
    held = list(jax.lax.optimization_barrier(operands))  # else XLA may fuse the call with slices around it: LD022
    for number in written:
        held[number] = jax.new_ref(held[number])
    results, refs = _call_undeclared(kernel, held, written, outputs, keywords)
    return jax.lax.optimization_barrier((results, tuple(map(jax.freeze, refs))))


_HAS_REFS = "out_type" in inspect.signature(jax_triton.triton_call).parameters
_OUTPUTS_KEYWORD = "out_type" if _HAS_REFS else "out_shape"
_CALL: dict[Mode, Callable[..., Results]] = {
    **dict.fromkeys(UNDECLARED, _call_undeclared),
    Mode.ALIASED: _call_with_ref if _HAS_REFS else _call_with_alias,
    Mode.OUT_OF_PLACE: _call_out_of_place,
}


def read_only_call(
    kernel: Any,
    *operands: jax.Array,
    outputs: Sequence[jax.ShapeDtypeStruct],
    grid: tuple[int, ...],
    num_warps: int = 4,
    **metaparams: Any,
) -> tuple[jax.Array, ...]:
    """Returns the outputs of a kernel that overwrites no operand; the kernel takes its operands, outputs and constexprs.

    A kernel made under TRITON_INTERPRET=1 runs on the CPU.
    """
    outputs = tuple(outputs)
    if isinstance(kernel, InterpretedFunction):
        return interpreted_read_only_call(kernel, operands, outputs=outputs, grid=grid, metaparams=metaparams)
    return tuple(
        jax_triton.triton_call(
            *operands, kernel=kernel, grid=grid, num_warps=num_warps, **{_OUTPUTS_KEYWORD: outputs}, **metaparams
        )
    )
