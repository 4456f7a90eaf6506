"""Worker side: the snapshot, an operation of ours that copies a value at its point of the program (see `intent`)."""

import importlib
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import core as jex_core
from jax.interpreters import ad, batching, mlir

NAME = "ligerdiag_snapshot"

type Form = tuple[tuple[int, ...], str]
"""Shape and dtype of an array."""


def read_form(value: Any) -> Form | None:
    """Returns the form of a value; None for one that no kernel can be given: numbers, NumPy's arrays, symbolic zeros,
    keys, references."""
    if isinstance(value, jex_core.Literal) or not hasattr(value, "aval"):
        return None
    aval = value.aval
    shape, dtype = getattr(aval, "shape", None), getattr(aval, "dtype", None)
    library: Any = jax
    if shape is None or dtype is None or type(aval).__name__ != "ShapedArray" or dtype == library.dtypes.float0:
        return None
    if library.dtypes.issubdtype(dtype, library.dtypes.extended):
        return None
    return tuple(shape), str(dtype)


def _make_primitive() -> Any:
    primitive: Any = jex_core.Primitive(NAME)
    dialect: Any = importlib.import_module("jaxlib.mlir.dialects.stablehlo")
    library, rules, batching_rules, lowering_rules = _untyped(jnp), _untyped(ad), _untyped(batching), _untyped(mlir)

    def copy(operand: Any) -> Any:
        return library.array(operand, copy=True)

    def same(operand: Any) -> Any:
        return operand

    def differentiate(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        return primitive.bind(primals[0]), tangents[0]

    def transpose(cotangent: Any, _: Any) -> list[Any]:
        return [cotangent]

    def lower(_: Any, operand: Any) -> Any:
        return dialect.OptimizationBarrierOp([operand]).results

    primitive.def_impl(copy)
    primitive.def_abstract_eval(same)
    rules.primitive_jvps[primitive] = differentiate
    rules.primitive_transposes[primitive] = transpose
    batching_rules.defvectorized(primitive)
    lowering_rules.register_lowering(primitive, lower)
    return primitive


def _untyped(module: object) -> Any:
    return module


SNAPSHOT = _make_primitive()
