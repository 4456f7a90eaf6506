"""Writes one operation of a jaxpr as a Python expression: an operator, a function of `jnp` or `lax`, or, if there is no such
function, the `bind` of the primitive. Runs in a worker.

An expression has `{0}`, `{1}` for its operands. It may differ a little from the operation (a weak type, a
wrapper of `jnp`), because a program is judged as it is printed.
"""

import enum
from collections.abc import Callable, Mapping
from math import prod
from typing import Any, cast

import numpy as np
from jax import lax

_OPERATORS = {
    "add": "+",
    "add_any": "+",
    "sub": "-",
    "mul": "*",
    "pow": "**",
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "and": "&",
    "or": "|",
    "xor": "^",
}
_OF_JNP = {
    "max": "maximum",
    "min": "minimum",
    "abs": "abs",
    "sign": "sign",
    "floor": "floor",
    "ceil": "ceil",
    "is_finite": "isfinite",
    **{
        name: name
        for name in ("sin", "cos", "tan", "tanh", "sinh", "cosh", "exp", "exp2", "log", "log1p", "expm1", "sqrt")
    },
    **{name: name for name in ("cbrt", "square", "real", "imag", "conj", "arctan2")},
}
"""The function of `jnp` that is this one operation for floating-point numbers."""
_OF_LAX = frozenset(
    (
        "rsqrt",
        "logistic",
        "erf",
        "erfc",
        "erf_inv",
        "lgamma",
        "digamma",
        "rem",
        "nextafter",
        "shift_left",
        "complex",
        "shift_right_logical",
        "shift_right_arithmetic",
        "population_count",
        "clz",
        "stop_gradient",
        "atan2",
        "asin",
        "acos",
        "atan",
        "asinh",
        "acosh",
        "atanh",
    )
)
_REDUCTIONS = {"reduce_sum": "sum", "reduce_max": "max", "reduce_min": "min", "reduce_prod": "prod"}
_LOGICAL = {"reduce_and": "all", "reduce_or": "any"}
_CUMULATIVE = frozenset(("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"))
_WIDE = frozenset(("float32", "float64", "int32", "uint32"))
"""Dtypes in which `jnp.sum` computes without a cast."""


def write_expression(primitive: Any, params: Mapping[str, Any], inputs: list[Any], outputs: list[Any]) -> str:
    """Returns the Python expression of an operation, such as `jnp.dot({0}, {1})` with `{0}` and `{1}` for its operands.

    Empty if no expression is known. inputs, outputs: the abstract values of the operands and results, with `shape` and
    `dtype`.
    """
    name = str(primitive.name)
    if name in _OPERATORS:
        return f"{{0}} {_OPERATORS[name]} {{1}}"
    if name in _WRITERS:
        text = _WRITERS[name](params, inputs, outputs)
        if text:
            return text
    if name in _OF_JNP and outputs and (name in ("max", "min", "abs", "sign") or "float" in str(inputs[0].dtype)):
        return f"jnp.{_OF_JNP[name]}({_list(inputs)})"
    if name in _OF_LAX and hasattr(lax, name):
        return f"lax.{name}({_list(inputs)})"
    if name in _REDUCTIONS and str(inputs[0].dtype) in _WIDE:
        return f"jnp.{_REDUCTIONS[name]}({{0}}{_write_axes(params['axes'], inputs[0])})"
    if name in _LOGICAL and str(inputs[0].dtype) == "bool":
        return f"jnp.{_LOGICAL[name]}({{0}}{_write_axes(params['axes'], inputs[0])})"
    if name in _CUMULATIVE:
        return f"lax.{name}({{0}}, axis={params['axis']}, reverse={params['reverse']})"
    return _write_bind(name, params, inputs)


def _list(values: list[Any]) -> str:
    return ", ".join(f"{{{number}}}" for number in range(len(values)))


def _write_axes(axes: Any, operand: Any) -> str:
    numbers = tuple(int(axis) for axis in axes)
    if len(numbers) == len(operand.shape):
        return ""
    return f", axis={numbers[0] if len(numbers) == 1 else numbers}"


def write_value(value: Any) -> str | None:
    """Returns a parameter of an operation as Python source, or None if it has no such form."""
    kind = _name_type(value)
    match value:
        case enum.Enum():
            return f"lax.{kind}.{value.name}" if hasattr(lax, kind) else None
        case None | bool() | str():
            return repr(value)
        case int() | np.integer():
            return str(int(cast("int", value)))
        case float() | np.floating():
            return write_number(float(cast("float", value)))
        case np.dtype():
            return f"jnp.dtype({cast('Any', value).name!r})"
        case _ if kind.endswith("DimensionNumbers"):
            described: Any = value
            named = getattr(described, "_fields", None) or getattr(described, "__annotations__", {})
            return _call(f"lax.{kind}", {name: write_value(getattr(described, name)) for name in named})
        case tuple() | list():
            parts = [write_value(one) for one in cast("list[Any]", value)]
            if None in parts:
                return None
            text = ", ".join(str(part) for part in parts)
            if isinstance(value, list):
                return f"[{text}]"
            return f"({text},)" if len(parts) == 1 else f"({text})"
        case _:
            return None


def _name_type(value: object) -> str:
    return type(value).__name__


def _unpack_axis(axis: Any) -> Any:
    """Returns the name of a mesh axis, which JAX may give as a tuple of one."""
    names: Any = axis
    return names[0] if isinstance(axis, tuple) and len(names) == 1 else names


def _call(function: str, parts: Mapping[str, str | None]) -> str | None:
    if None in parts.values():
        return None
    return f"{function}({', '.join(f'{name}={part}' for name, part in parts.items())})"


def write_number(value: float) -> str:
    """Returns a floating-point number as Python source. Infinities and NaN become constants of `jnp`."""
    if np.isnan(value):
        return "jnp.nan"
    if np.isinf(value):
        return "jnp.inf" if value > 0 else "-jnp.inf"
    return repr(value)


def _write_bind(name: str, params: Mapping[str, Any], inputs: list[Any]) -> str:
    if not hasattr(lax, f"{name}_p"):
        return ""
    given = {key: write_value(value) for key, value in params.items()}
    if None in given.values():
        return ""
    words = "".join(f", {key}={value}" for key, value in given.items())
    return f"lax.{name}_p.bind({_list(inputs)}{words})"


type _Writer = Callable[[Mapping[str, Any], list[Any], list[Any]], str]


def _write_div(params: Mapping[str, Any], inputs: list[Any], outputs: list[Any]) -> str:
    del params, inputs
    return "{0} / {1}" if "float" in str(outputs[0].dtype) else "lax.div({0}, {1})"


def _write_dot(params: Mapping[str, Any], inputs: list[Any], outputs: list[Any]) -> str:
    (contract, batch), (left, right) = params["dimension_numbers"], inputs
    preferred, precision = params.get("preferred_element_type"), params.get("precision")
    numbers = tuple(tuple(tuple(int(one) for one in side) for side in pair) for pair in (contract, batch))
    is_plain = precision is None and left.dtype == right.dtype
    if is_plain and numbers == (((len(left.shape) - 1,), (0,)), ((), ())) and len(right.shape) in (1, 2):
        if preferred is None or np.dtype(preferred) == left.dtype:
            return "{0} @ {1}"
        return f"jnp.dot({{0}}, {{1}}, preferred_element_type=jnp.{outputs[0].dtype})"
    words = f", precision={write_value(precision)}" if precision is not None else ""
    if words.endswith("None"):
        return ""
    if preferred is not None:
        words += f", preferred_element_type=jnp.{np.dtype(preferred).name}"
    return f"lax.dot_general({{0}}, {{1}}, {write_value(numbers)}{words})"


def _write_broadcast(params: Mapping[str, Any], inputs: list[Any], outputs: list[Any]) -> str:
    shape, dims = tuple(outputs[0].shape), tuple(params["broadcast_dimensions"])
    operand = tuple(inputs[0].shape)
    if not operand:
        return f"jnp.full({write_value(shape)}, {{0}}, {write_value_dtype(outputs[0].dtype)})"
    kept = tuple(shape[dim] for dim in dims)
    if kept == operand and prod(shape) == prod(operand):
        return f"{{0}}[{', '.join(':' if axis in dims else 'None' for axis in range(len(shape)))}]"
    if dims == tuple(range(len(shape) - len(operand), len(shape))):
        return f"jnp.broadcast_to({{0}}, {write_value(shape)})"
    return f"lax.broadcast_in_dim({{0}}, {write_value(shape)}, {write_value(dims)})"


def write_value_dtype(dtype: Any) -> str:
    """Returns a dtype as Python source, such as `jnp.float32`."""
    return "jnp.bool_" if str(dtype) == "bool" else f"jnp.{dtype}"


def _write_reshape(params: Mapping[str, Any], inputs: list[Any], outputs: list[Any]) -> str:
    if params.get("dimensions") is not None:
        return ""
    del inputs
    return f"{{0}}.reshape({write_value(tuple(outputs[0].shape))})"


def _write_transpose(params: Mapping[str, Any], inputs: list[Any], outputs: list[Any]) -> str:
    del inputs, outputs
    order = tuple(params["permutation"])
    return "{0}.T" if order == (1, 0) else f"{{0}}.transpose({write_value(order)})"


def _write_convert(params: Mapping[str, Any], inputs: list[Any], outputs: list[Any]) -> str:
    del params
    if inputs[0].dtype == outputs[0].dtype:
        return "lax.convert_element_type({0}, " + write_value_dtype(outputs[0].dtype) + ")"
    return f"{{0}}.astype({write_value_dtype(outputs[0].dtype)})"


def _write_slice(params: Mapping[str, Any], inputs: list[Any], outputs: list[Any]) -> str:
    del outputs
    strides = params["strides"] or (1,) * len(inputs[0].shape)
    parts = [
        ":" if (start, stop, step) == (0, size, 1) else f"{start}:{stop}" + (f":{step}" if step != 1 else "")
        for start, stop, step, size in zip(
            params["start_indices"], params["limit_indices"], strides, inputs[0].shape, strict=True
        )
    ]
    while len(parts) > 1 and parts[-1] == ":":
        parts.pop()
    return f"{{0}}[{', '.join(parts)}]"


def _write_dynamic_slice(params: Mapping[str, Any], inputs: list[Any], outputs: list[Any]) -> str:
    del outputs
    starts = ", ".join(f"{{{number}}}" for number in range(1, len(inputs)))
    starts += "," if len(inputs) == 2 else ""
    return f"lax.dynamic_slice({{0}}, ({starts}), {write_value(tuple(params['slice_sizes']))})"


def _write_dynamic_update(params: Mapping[str, Any], inputs: list[Any], outputs: list[Any]) -> str:
    del params, outputs
    starts = ", ".join(f"{{{number}}}" for number in range(2, len(inputs)))
    return f"lax.dynamic_update_slice({{0}}, {{1}}, ({starts}{',' if len(inputs) == 3 else ''}))"


def _write_concatenate(params: Mapping[str, Any], inputs: list[Any], outputs: list[Any]) -> str:
    del outputs
    axis = f", axis={params['dimension']}" if params["dimension"] else ""
    return f"jnp.concatenate([{_list(inputs)}]{axis})"


def _write_pad(params: Mapping[str, Any], inputs: list[Any], outputs: list[Any]) -> str:
    del outputs
    numbers = tuple(tuple(int(one) for one in each) for each in params["padding_config"])
    del inputs
    return f"lax.pad({{0}}, {{1}}, {write_value(numbers)})"


def _write_iota(params: Mapping[str, Any], inputs: list[Any], outputs: list[Any]) -> str:
    if inputs:
        return ""
    shape, dimension, dtype = tuple(outputs[0].shape), int(params["dimension"]), write_value_dtype(outputs[0].dtype)
    if len(shape) == 1:
        return f"jnp.arange({shape[0]}, dtype={dtype})"
    return f"lax.broadcasted_iota({dtype}, {write_value(shape)}, {dimension})"


def _write_select(params: Mapping[str, Any], inputs: list[Any], outputs: list[Any]) -> str:
    del params, outputs
    is_where = len(inputs) == 3 and str(inputs[0].dtype) == "bool"
    return "jnp.where({0}, {2}, {1})" if is_where else f"lax.select_n({_list(inputs)})"


def _write_power(params: Mapping[str, Any], inputs: list[Any], outputs: list[Any]) -> str:
    del inputs, outputs
    return f"lax.integer_pow({{0}}, {int(params['y'])})"


def _write_squeeze(params: Mapping[str, Any], inputs: list[Any], outputs: list[Any]) -> str:
    del inputs, outputs
    return f"lax.squeeze({{0}}, {write_value(tuple(int(one) for one in params['dimensions']))})"


def _write_constraint(params: Mapping[str, Any], inputs: list[Any], outputs: list[Any]) -> str:
    del inputs, outputs
    spec = write_spec(getattr(params["sharding"], "spec", None))
    return f"lax.with_sharding_constraint({{0}}, {spec})" if spec and not params.get("unconstrained_dims") else ""


def write_spec(spec: Any) -> str:
    """Returns a `PartitionSpec` as Python source, such as `P("x")`. Empty if it has no such form."""
    if spec is None:
        return ""
    parts = [write_value(part) for part in tuple(spec)]
    return "" if None in parts else f"P({', '.join(str(part) for part in parts)})".replace("'", '"')


def _write_collective(name: str) -> _Writer:
    def write(params: Mapping[str, Any], inputs: list[Any], outputs: list[Any]) -> str:
        del outputs
        axes = params["axes"] if "axes" in params else params["axis_name"]
        if params.get("axis_index_groups") is not None or len(inputs) != 1:
            return ""
        axes = _unpack_axis(axes)
        words = ""
        if name == "all_gather":
            words = f", axis={params['all_gather_dimension']}, tiled={params['tiled']}"
        elif name == "psum_scatter":
            words = f", scatter_dimension={params['scatter_dimension']}, tiled={params['tiled']}"
        return f"lax.{name}({{0}}, {write_value(axes)}{words})"

    return write


def _write_axis_index(params: Mapping[str, Any], inputs: list[Any], outputs: list[Any]) -> str:
    del inputs, outputs
    return f"lax.axis_index({write_value(params['axis_name'])})"


def _write_permute(params: Mapping[str, Any], inputs: list[Any], outputs: list[Any]) -> str:
    del inputs, outputs
    axis = _unpack_axis(params["axis_name"])
    return f"lax.ppermute({{0}}, {write_value(axis)}, {write_value([tuple(pair) for pair in params['perm']])})"


def _write_barrier(params: Mapping[str, Any], inputs: list[Any], outputs: list[Any]) -> str:
    del params, outputs
    return f"lax.optimization_barrier(({_list(inputs)}{',' if len(inputs) == 1 else ''}))"


def _fill(text: str) -> _Writer:
    def write(params: Mapping[str, Any], inputs: list[Any], outputs: list[Any]) -> str:
        del params, inputs, outputs
        return text

    return write


_WRITERS: Mapping[str, _Writer] = {
    "div": _write_div,
    "neg": _fill("-{0}"),
    "not": _fill("~{0}"),
    "copy": _fill("jnp.copy({0})"),
    "copy_p": _fill("jnp.copy({0})"),
    "clamp": _fill("lax.clamp({0}, {1}, {2})"),
    "dot_general": _write_dot,
    "broadcast_in_dim": _write_broadcast,
    "reshape": _write_reshape,
    "transpose": _write_transpose,
    "convert_element_type": _write_convert,
    "slice": _write_slice,
    "dynamic_slice": _write_dynamic_slice,
    "dynamic_update_slice": _write_dynamic_update,
    "concatenate": _write_concatenate,
    "pad": _write_pad,
    "iota": _write_iota,
    "select_n": _write_select,
    "integer_pow": _write_power,
    "squeeze": _write_squeeze,
    "sharding_constraint": _write_constraint,
    "psum": _write_collective("psum"),
    "psum_invariant": _write_collective("psum"),
    "pmax": _write_collective("pmax"),
    "pmin": _write_collective("pmin"),
    "all_gather": _write_collective("all_gather"),
    "reduce_scatter": _write_collective("psum_scatter"),
    "axis_index": _write_axis_index,
    "ppermute": _write_permute,
    "optimization_barrier": _write_barrier,
}
GIVES_TUPLE = frozenset(("optimization_barrier", "split", "sort"))
"""Operations whose expression returns a tuple or a list even if there is only one result."""
