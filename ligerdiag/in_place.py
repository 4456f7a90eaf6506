"""Calls a Triton kernel that overwrites operands so that XLA knows of the writes, with every generation of jax-triton.

    from ligerdiag.in_place import call_in_place

The file needs nothing else of ligerdiag: copy it if you do not want the package.
"""

import importlib
import inspect
import warnings
from collections.abc import Iterable
from typing import Any

import jax
import numpy as np

_jax: Any = jax
_numpy: Any = np
_triton_call: Any = importlib.import_module("jax_triton").triton_call
_KEYWORDS = inspect.signature(_triton_call).parameters
_IS_NEW = "out_type" in _KEYWORDS  # since jax-triton 0.4 an aliased output is no parameter of the kernel
_ALIASES = "input_output_aliases"
if _ALIASES not in _KEYWORDS:  # this jax-triton would take the keyword for one of the kernel's constants
    raise ImportError(f"this jax-triton has no `{_ALIASES}`: `call_in_place` needs one of the versions 0.2 to 0.4")


def call_in_place(*operands: Any, kernel: Any, written: Any, outputs: Any = (), **keywords: Any) -> tuple[Any, ...]:
    """Calls a Triton kernel. Returns the kernel's outputs, and then the new value of each operand that it overwrites.

    written: the operand that the kernel overwrites, given as its position among `operands` or as the name of its
        parameter; or a tuple of such operands. outputs: a list with the shape and dtype of each output that is not an
        operand. keywords: those of `jax_triton.triton_call`, the kernel's constants, and operands by name.

    The kernel's parameters are, in this order: its operands, a pointer for each output, a spare pointer for each written
    operand, and its constants. The kernel must not use the spare pointers: in them jax-triton before 0.4 passes the
    addresses of the written operands a second time. With jax-triton 0.4 and later the kernel may omit them. Raises
    TypeError or ValueError for wrong arguments.

    In JAX, the array that is passed as a written operand keeps its old value. If the program reads that array later, XLA
    passes the kernel a copy of it. Put a `jax.custom_vjp` or `jax.custom_jvp` around the call to differentiate it, and
    `jax.custom_batching.sequential_vmap` to batch it.
    """
    constant = _read_parameters(kernel)
    bound = _bind(constant, operands, keywords)
    given = {
        name: _jax.tree.map(_convert, bound.pop(name)) for name in constant if name in bound and not constant[name]
    }
    _require_passable(given, constant)
    changed = _find_written(written, [*constant][: len(operands)], given)
    types = _read_types(outputs)
    spare = _find_spare([name for name in constant if not (constant[name] or name in given)], len(types), len(changed))
    aliases = {_count_before(name, given): len(types) + number for number, name in enumerate(changed)}
    types += [_jax.ShapeDtypeStruct(given[name].shape, given[name].dtype) for name in changed]
    more = {"kernel": kernel, _ALIASES: aliases, **bound}
    if not _IS_NEW:
        return _vary(_triton_call(*given.values(), out_shape=tuple(types), **more), given)
    held = _jax.tree.map(_hold, given)
    with warnings.catch_warnings():
        # The warning recommends a Ref, which is wrong under `jax.checkpoint`: it keeps the Ref when it computes the
        # forward pass again, without the call that writes the Ref.
        warnings.filterwarnings("ignore", f"{_ALIASES} is deprecated", DeprecationWarning)
        results = _triton_call(out_type=tuple(types), **held, **dict.fromkeys(spare), **more)
    return _vary([_hold(one) for one in results], given)


def _read_parameters(kernel: Any) -> dict[str, bool]:
    """Returns the kernel's parameters in order, each with whether it is a constant."""
    inner = kernel
    while not hasattr(inner, "params"):
        if not hasattr(inner, "fn"):
            raise TypeError(f"expected a Triton kernel but got {kernel!r}: decorate the function with `triton.jit`")
        inner = inner.fn
    return {parameter.name: parameter.is_constexpr for parameter in inner.params}


def _bind(constant: dict[str, bool], operands: tuple[Any, ...], keywords: dict[str, Any]) -> dict[str, Any]:
    """Returns a dict from name to value with every operand, by the name of its parameter, and every keyword. constant: the
    kernel's parameters, as from `_read_parameters`. Raises TypeError if an operand or keyword does not fit.
    """
    if len(operands) > len(constant):
        raise TypeError(f"expected at most {len(constant)} operands, {_list(constant)}, but got {len(operands)}")
    bound = dict(zip(constant, operands, strict=False))
    for name, value in keywords.items():
        if name in bound:
            raise TypeError(f"`{name}` is given by its position and by its name: leave one of them out")
        if name in ("out_shape", "out_type", _ALIASES):
            raise TypeError(
                f"`call_in_place` does not take `{name}` of `triton_call`: use `outputs` and `written` instead"
            )
        if name not in constant and _is_array(value):
            raise TypeError(f"`{name}` is an array, but the kernel has no such parameter: it has {_list(constant)}")
    return bound | keywords


def _require_passable(given: dict[str, Any], constant: dict[str, bool]) -> None:
    for name, value in given.items():
        if any(_is_ref(one) for one in _jax.tree.leaves(value)):
            raise TypeError(f"`{name}` is a Ref: pass `ref[...]`, and store what the call returns: `ref[...] = result`")
        if value is None and not _IS_NEW:
            raise TypeError(
                f"`{name}` is None, which jax-triton accepts only since 0.4: pass an array that the kernel ignores"
            )
    order = [*given, *(name for name in constant if not constant[name] and name not in given)]
    if not _IS_NEW and order != [*constant][: len(order)]:
        raise TypeError(
            f"expected the kernel's parameters in the order operands, {_list(given)}, outputs, constants but got"
            f" {_list(constant)}: change the order, or use jax-triton 0.4, which accepts any order"
        )


def _find_written(written: Any, by_place: list[str], given: dict[str, Any]) -> list[str]:
    """Returns the names of the operands that the kernel overwrites. written: as in `call_in_place`. by_place: names of the
    parameters that get operands by position. given: from parameter name to operand. Raises TypeError or ValueError for a
    wrong `written`.
    """
    asked: list[Any] = [*written] if type(written) in (tuple, list) else [written]
    if not asked:
        raise ValueError(
            "expected an operand in `written` but got none: use `jax_triton.triton_call` for a kernel that only"
            " writes outputs"
        )
    names: list[str] = []
    for one in asked:
        if isinstance(one, str) and one in given:
            names.append(one)
        elif isinstance(one, int) and not isinstance(one, bool) and 0 <= one < len(by_place):
            names.append(by_place[one])
        else:
            places = f"0 to {len(by_place) - 1}" if by_place else "no position, since all operands are given by name"
            raise ValueError(f"expected {places} or one of {_list(given)} in `written` but got {one!r}")
    for number, name in enumerate(names):
        if name in names[:number]:
            raise ValueError(f"expected each operand once in `written` but got `{name}` twice: {written!r}")
        if not _is_array(given.get(name)):
            raise TypeError(
                f"expected an array as `{name}`, which is in `written`, but got {given.get(name)!r}: the kernel can"
                " overwrite arrays only; make it one with `jax.numpy.asarray`, or take it out of `written`"
            )
        if twins := [other for other in names[:number] if given[other] is given[name]]:
            raise ValueError(
                f"`{twins[0]}` and `{name}` are one array, and `written` has both, but an array cannot get two new values:"
                " pass `jax.numpy.copy` of the array for one of them, or use a kernel with one pointer for both"
            )
    return names


def _read_types(outputs: Any) -> list[Any]:
    types = [outputs] if hasattr(outputs, "dtype") else [*outputs]
    for number, one in enumerate(types):
        if not (hasattr(one, "shape") and hasattr(one, "dtype")):
            raise TypeError(f"expected a `jax.ShapeDtypeStruct` as output {number} but got {one!r}")
    return types


def _find_spare(free: list[str], outputs: int, written: int) -> list[str]:
    """Returns the names of the spare parameters, one for each written operand; none if the kernel omits them, as it
    may with jax-triton 0.4 and later.

    free: the kernel's parameters that are neither operands nor constants, in order: one for each of the `outputs` outputs,
    then the spare ones. written: number of written operands. Raises TypeError for another number of parameters.
    """
    if len(free) - outputs == written or (_IS_NEW and len(free) == outputs):
        return free[outputs:]
    raise TypeError(
        f"expected {outputs + written} parameters of the kernel besides operands and constants ({outputs} for `outputs`,"
        f" then one spare pointer for each of the {written} operands in `written`) but the kernel has {len(free)}:"
        f" {_list(free)}"
    )


def _count_before(name: str, given: dict[str, Any]) -> int:
    """Returns the index of the operand `name` among the arrays in `given` (from parameter name to operand); with
    jax-triton 0.4 and later, among the arrays and scalars, as that version counts.
    """
    before = [*given.values()][: [*given].index(name)]
    return sum(_IS_NEW or _is_array(one) for one in _jax.tree.leaves(before))


def _hold(value: Any) -> Any:
    """Puts a barrier around an array, without which XLA would fuse a call of jax-triton 0.4 with slices, and lose the
    alias.
    """
    return _jax.lax.optimization_barrier(value) if _is_array(value) else value


def _vary(results: Any, given: dict[str, Any]) -> tuple[Any, ...]:
    """Returns the results, marked inside a shard_map as varying over the mesh axes of the operands, which jax-triton
    does not do.
    """
    axes = frozenset[str]().union(*(_find_axes(one) for one in _jax.tree.leaves(given)))
    missing = [tuple(sorted(axes - _find_axes(one))) for one in results]
    return tuple(_cast(one, over) if over else one for one, over in zip(results, missing, strict=True))


def _cast(value: Any, axes: tuple[str, ...]) -> Any:
    lax = _jax.lax
    return lax.pcast(value, axes, to="varying") if hasattr(lax, "pcast") else lax.pvary(value, axes)


def _find_axes(value: Any) -> frozenset[str]:
    """Returns the mesh axes over which an array inside a shard_map varies."""
    kind: Any = getattr(value, "aval", None)
    return frozenset(getattr(getattr(kind, "mat", None), "varying", None) or getattr(kind, "vma", None) or ())


def _convert(value: Any) -> Any:
    """Returns a JAX array for a NumPy array, and a Python number for a NumPy scalar."""
    if isinstance(value, _numpy.ndarray):
        return _jax.numpy.asarray(value)
    if isinstance(value, _numpy.generic) and (_IS_NEW or not isinstance(value, _numpy.float32)):
        return value.item()
    return value


def _is_array(value: Any) -> bool:
    return isinstance(value, (_jax.Array, _numpy.ndarray))


def _is_ref(value: Any) -> bool:
    return "Ref" in type(getattr(value, "aval", None)).__name__


def _list(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "none"
