"""Writes a call of a Triton kernel as Python, for the generation of jax-triton with which the program was traced. Runs in a
worker.

Before 0.4, `jax_triton.triton_call` takes the outputs as `out_shape`, and a kernel gets a second pointer for an output that
aliases an operand. Since 0.4 it takes them as `out_type`, and an operand that the kernel overwrites can be a Ref.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from ligerdiag.reduce.expressions import write_value, write_value_dtype
from ligerdiag.reduce.kernel_source import SourceCopier, UnwritableError

_OF_CALL = frozenset(
    (
        "fn",
        "scalar_args",
        "name",
        "custom_call_target_name",
        "out_shapes",
        "grid",
        "num_warps",
        "num_stages",
        "num_ctas",
        "compute_capability",
        "enable_fp_fusion",
        "input_output_aliases",
        "zeroed_outputs",
        "debug",
        "backend_init_func",
        "serialized_metadata",
    )
)
"""The parameters of the primitive until 0.3 that are no constants of the kernel."""
_USUAL_OPTIONS = {"num_warps": 4, "num_stages": 3, "num_ctas": 1, "debug": False}
"""The values that jax-triton uses for those options of the compiler that a call leaves out."""


def write_triton_call(params: Mapping[str, Any], operands: int, copier: SourceCopier) -> str:
    """Returns the call as Python source, with `{0}`, `{1}` for its operands, and copies the source of the kernel.

    operands: the number of array operands. Raises UnwritableError if the kernel or a parameter of the call cannot be
    written.
    """
    copier.imports.append("import jax_triton as jt")
    kernel = copier.copy(params["fn"])
    is_new = "in_tree" in params
    if is_new:
        constants = dict(params["metaparams"])
        arguments, options = _write_arguments(params, operands), dict(params["backend_options"])
    elif "scalar_args" in params:
        constants = {name: value for name, value in params.items() if name not in _OF_CALL}
        arguments, options = _write_older_arguments(params, operands), {}
    else:
        raise UnwritableError("is called by a jax-triton other than 0.2, 0.3 and 0.4")
    words: dict[str, str] = {"kernel": kernel}
    words["out_type" if is_new else "out_shape"] = _write_outputs(params["out_shapes"])
    words["grid"] = _write_grid(params, constants)
    words |= _write_options(params, options)
    if zeroed := _choose(params.get("zeroed_outputs", ()), constants, "its `zeroed_outputs`"):
        words["zeroed_outputs"] = _require(write_value(tuple(zeroed)))
    if params.get("has_side_effect"):
        words["has_side_effect"] = "True"
    usual = _list_defaults(params["fn"])
    for name, value in constants.items():
        if not (is_new and name in usual and type(usual[name]) is type(value) and usual[name] == value):
            words[name] = copier.write_parameter(value)
    if aliases := dict(params["input_output_aliases"]):
        words["input_output_aliases"] = "{" + ", ".join(f"{one}: {other}" for one, other in aliases.items()) + "}"
    parts = [*arguments, *(f"{name}={_escape(text)}" for name, text in words.items())]
    return f"jt.triton_call({', '.join(parts)})"


def _escape(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _require(text: str | None) -> str:
    if text is None:
        raise UnwritableError("has an argument without a Python form")
    return text


def _write_outputs(types: Sequence[Any]) -> str:
    written = [
        f"jax.ShapeDtypeStruct({write_value(tuple(one.shape))}, {write_value_dtype(np.dtype(one.dtype).name)})"
        for one in types
    ]
    return written[0] if len(written) == 1 else f"[{', '.join(written)}]"


def _write_older_arguments(params: Mapping[str, Any], operands: int) -> list[str]:
    scalars = {int(place): value for place, _, value in params["scalar_args"]}
    arrays = iter(range(operands))
    places = range(operands + len(scalars))
    return [_escape(repr(scalars[place])) if place in scalars else f"{{{next(arrays)}}}" for place in places]


def _write_arguments(params: Mapping[str, Any], operands: int) -> list[str]:
    """Returns the arguments since 0.4, which has a tree of them: by position as far as that goes, then by name."""
    values = iter(params["in_tree"].unflatten([_Place(f"{{{number}}}") for number in range(operands)]))
    written: list[str] = []
    by_place = True
    for parameter in _find_jit_function(params["fn"]).params:
        value = _OUTPUT if parameter.is_constexpr else next(values)
        if value is _OUTPUT or type(value).__name__ == "_OutputPlaceholder":
            by_place = False
        else:
            written.append(_write_argument(value) if by_place else f"{parameter.name}={_write_argument(value)}")
    return written


class _Place(str):
    """The place of an array in the text of a call."""

    __slots__ = ()


_OUTPUT = object()


def _write_argument(value: Any) -> str:
    if isinstance(value, _Place):
        return str(value)
    if isinstance(value, tuple | list):
        parts: list[Any] = [*value]
        return f"({', '.join(map(_write_argument, parts))}{',' if len(parts) == 1 else ''})"
    if type(value).__name__ == "_StaticArg":
        value = value.value
        if isinstance(value, np.generic):
            name = type(cast("Any", value)).__name__
            return f"np.{name}({_escape(_require(write_value(value.item())))})"
    text = write_value(value)
    if text is None:
        raise UnwritableError(f"has an operand of type `{type(value).__name__}`, which has no Python form")
    return _escape(text)


def _write_options(params: Mapping[str, Any], options: dict[str, Any]) -> dict[str, str]:
    """Returns the words for options of the compiler. options: those since 0.4, with their usual values."""
    words: dict[str, str] = {}
    for name in ("num_warps", "num_stages", "num_ctas"):
        value = options.pop(name, params.get(name))
        is_usual = value == _USUAL_OPTIONS[name] and (name == "num_ctas" or "in_tree" in params)
        if value is not None and not is_usual:
            words[name] = _require(write_value(value))
    options.pop("debug", None)
    if options:
        items = [f"{name!r}: {_require(write_value(value))}" for name, value in options.items()]
        words["backend_options"] = "{" + ", ".join(items) + "}"
    if not params.get("enable_fp_fusion", True):
        words["enable_fp_fusion"] = "False"
    return words


def _find_jit_function(kernel: Any) -> Any:
    while not hasattr(kernel, "params") and hasattr(kernel, "fn"):
        kernel = kernel.fn
    return kernel


def _list_defaults(kernel: Any) -> dict[str, Any]:
    parameters = _find_jit_function(kernel).params
    return {one.name: one.default for one in parameters if one.is_constexpr and one.has_default}


def _write_grid(params: Mapping[str, Any], constants: Mapping[str, Any]) -> str:
    """Returns the grid as numbers. If the kernel is tuned and its configurations have different grids: a function that
    looks them up.
    """
    grid = params["grid"]
    choices: list[Mapping[str, Any]] = [{}]
    if callable(grid):
        choices = _list_configurations(params["fn"], constants)
    grids = [_choose(grid, {**constants, **one}, "its grid") for one in choices]
    if all(one == grids[0] for one in grids):
        return _require(write_value(grids[0]))
    varied = [name for name in choices[0] if len({repr(one.get(name)) for one in choices}) > 1]
    keys = [write_value(tuple(one[name] for name in varied)) for one in choices]
    table = dict(zip(keys, map(write_value, grids), strict=True))
    if None in table or None in table.values():
        raise UnwritableError("has a grid without a Python form")
    rows = ", ".join(f"{values}: {grid}" for values, grid in table.items())
    key = ", ".join(f'meta["{name}"]' for name in varied)
    return f"lambda meta: {{{rows}}}[({key},)]"


def _list_configurations(kernel: Any, constants: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Returns the constants of each configuration that a tuned kernel may get; that of no constants for another one."""
    found: list[Mapping[str, Any]] = []
    while kernel is not None:
        for one in getattr(kernel, "configs", ()):
            if all(constants.get(name, value) == value for name, value in one.kwargs.items()):
                found.append(dict(one.kwargs))
        kernel = getattr(kernel, "fn", None)
    return found or [{}]


def _choose(value: Any, constants: Mapping[str, Any], name: str) -> Any:
    if not callable(value):
        return value
    try:
        return value(dict(constants))
    except Exception as fault:
        raise UnwritableError(f"cannot be written: {name} is a function that raises {type(fault).__name__}") from fault
