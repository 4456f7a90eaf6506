"""Matrix products by cuBLAS: `__cublas$gemm` and `__cublas$lt$matmul`.

D = activation(alpha * lhs x rhs + beta * C + bias), computed in f32 (f64 where an operand is f64) and rounded once.
Operands: lhs, rhs, C if beta is not 0, the bias if the epilogue adds one. Results: D, the activation's input if the
epilogue says AUX, and a workspace, whose content must not be read: zeros here.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.module import HloInstruction
from ligerdiag.hlo.shape import is_tuple
from ligerdiag.replay.dtypes import get_dimensions, get_dtype
from ligerdiag.replay.opcodes.dot import compute_product, compute_product_dtype
from ligerdiag.replay.opcodes.scope import Array, Evaluate, NotCoveredError, Scope, Value


def _gelu(x: Array) -> Array:
    """cuBLASLt's GELU: the approximation by tanh."""
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi).astype(x.dtype) * (x + 0.044715 * x**3)))


def _relu(x: Array) -> Array:
    return np.maximum(x, 0)


def _silu(x: Array) -> Array:
    return x / (1 + np.exp(-x))


_ACTIVATIONS: Mapping[str, Callable[[Array], Array] | None] = {
    "DEFAULT": None,
    "RELU": _relu,
    "GELU": _gelu,
    "SILU": _silu,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _DotNumbers:
    lhs_batch_dimensions: tuple[int, ...]
    rhs_batch_dimensions: tuple[int, ...]
    lhs_contracting_dimensions: tuple[int, ...]
    rhs_contracting_dimensions: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Epilogue:
    """The steps after the product."""

    adds_bias: bool
    activation: Callable[[Array], Array] | None
    has_auxiliary: bool


def parse_epilogue(name: str) -> _Epilogue:
    """From XLA's name, such as `BIAS_GELU_AUX`; raises NotCoveredError for one that is not known."""
    adds_bias = name == "BIAS" or name.startswith("BIAS_")
    rest = name.removeprefix("BIAS").removeprefix("_") or "DEFAULT"
    has_auxiliary = rest == "GELU_AUX"
    activation = rest.removesuffix("_AUX") if has_auxiliary else rest
    if activation not in _ACTIVATIONS:
        raise NotCoveredError(f"matmul with the epilogue {name}")
    return _Epilogue(adds_bias=adds_bias, activation=_ACTIVATIONS[activation], has_auxiliary=has_auxiliary)


def _read_config(instruction: HloInstruction) -> Mapping[str, Any]:
    try:
        config = json.loads(instruction.proto.backend_config)["gemm_backend_config"]
    except (ValueError, KeyError, TypeError) as error:
        raise ArtifactError(f"`{instruction.name}` has no configuration of a matmul") from error
    for name in ("grad_x", "grad_y", "damax_output", "scale_mode"):
        if config.get(name):
            raise NotCoveredError(f"matmul with {name}")
    return config


def evaluate_gemm(instruction: HloInstruction, operands: tuple[Value, ...], scope: Scope) -> Value:
    """Returns the product and what follows it; see the module's docstring."""
    config = _read_config(instruction)
    epilogue = parse_epilogue(str(config.get("epilogue", "DEFAULT")))
    shapes = list(instruction.shape.tuple_shapes) if is_tuple(instruction.shape) else [instruction.shape]
    arrays = [np.asarray(operand) for operand in operands]
    beta, dtype = float(config.get("beta", 0)), get_dtype(shapes[0])
    if len(arrays) != 2 + bool(beta) + epilogue.adds_bias:
        raise NotCoveredError(f"matmul of {len(arrays)} operands")
    written = config.get("dot_dimension_numbers", {})
    names = _DotNumbers.__slots__
    numbers = _DotNumbers(**{name: tuple([int(d) for d in written.get(name, ())]) for name in names})
    with np.errstate(all="ignore"):
        wide = compute_product_dtype(arrays[0].dtype, arrays[1].dtype, dtype)
        total = compute_product(arrays[0], arrays[1], numbers, dtype)
        alpha = complex(float(config.get("alpha_real", 1)), float(config.get("alpha_imag", 0)))
        if alpha != 1:
            total = total * np.asarray(alpha if wide.kind == "c" else alpha.real).astype(wide)
        if beta:
            total = total + np.asarray(beta).astype(wide) * arrays[2].astype(wide)
        if epilogue.adds_bias:
            total = total + arrays[-1].astype(wide)  # along the last dimensions
        if total.shape != get_dimensions(shapes[0]):
            raise ArtifactError(f"`{instruction.name}` computes {total.shape}, not {get_dimensions(shapes[0])}")
        results = [total.astype(dtype, copy=False)]
        if epilogue.activation is not None:
            results = [epilogue.activation(total).astype(dtype)]
        if epilogue.has_auxiliary:
            results.append(total.astype(get_dtype(shapes[1])))
    results += [np.zeros(get_dimensions(shape), get_dtype(shape)) for shape in shapes[len(results) :]]
    return tuple(results) if is_tuple(instruction.shape) else results[0]


GEMM_CALLS: Mapping[str, Evaluate] = {"__cublas$gemm": evaluate_gemm, "__cublas$lt$matmul": evaluate_gemm}
