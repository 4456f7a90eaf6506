"""The oracle of the opcode tests: compares XLA:CPU, through JAX or HLO text, with the replay of the same HLO."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import jax
import jaxlib._hlo
import jaxlib._jax
import ml_dtypes
import numpy as np
from jaxlib import xla_client

from ligerdiag.hlo.module import HloModule
from ligerdiag.hlo.parse import parse_module
from ligerdiag.hlo.xla_pb2 import HloModuleProto
from ligerdiag.replay.ops.evaluate import HloEvaluator
from ligerdiag.replay.ops.scope import Value

FLUSHED = (np.dtype(np.float32), np.dtype(np.float64), np.dtype(ml_dtypes.bfloat16))
"""Dtypes whose subnormals XLA:CPU reads and writes as zeros when it computes; bfloat16 is computed in f32."""
QUICK = {"xla_backend_optimization_level": 0}
"""Affects only LLVM, which would otherwise take half of the time: programs are compiled for a few elements each."""
KEPT = 64
"""The number of compiled programs to keep: a repeated program is not compiled again."""

_compiled: dict[str, Any] = {}


def compare_with_xla_cpu(
    function: Callable[..., Any],
    *arguments: Any,
    rtol: float = 0.0,
    by_norm: bool = False,
    x64: bool = False,
    partition: int = 0,
) -> None:
    """Asserts that the replay of the lowered `function` equals the result of XLA:CPU, including dtype and shape.

    rtol: largest relative error of an element; 0 means bit for bit (any NaN equals any NaN, -0 is not 0). Where it is not 0,
    the smallest normal number is allowed on top: give no subnormal inputs, see FLUSHED.
    by_norm: the error is relative to the largest finite magnitude of the output instead, for sums that cancel.
    x64: lower and run with 64-bit types.
    """
    with _x64(x64):
        lowered = _lower(function, *arguments)
        module = _parse_lowered(lowered)
        expected = [np.asarray(leaf) for leaf in jax.tree.leaves(_compile(lowered)(*arguments))]
        inputs = [np.asarray(jax.numpy.asarray(leaf)) for leaf in jax.tree.leaves(arguments)]
    assert_equals(evaluate_module(module, inputs, partition=partition), expected, rtol=rtol, by_norm=by_norm)


def compare_text_with_xla_cpu(text: str, *arguments: Any, rtol: float = 0.0, by_norm: bool = False) -> None:
    """Does the same for HLO text, which JAX need not emit; the entry's root may be a tuple. 64-bit types are allowed."""
    module = parse_text(text)
    inputs = [np.asarray(argument) for argument in arguments]
    assert_equals(evaluate_module(module, inputs), run_text(text, *inputs), rtol=rtol, by_norm=by_norm)


def lower_to_module(function: Callable[..., Any], *arguments: Any) -> HloModule:
    """Returns the unoptimized HLO of a function; each leaf of the arguments is a parameter, used or not."""
    return _parse_lowered(_lower(function, *arguments))


def _lower(function: Callable[..., Any], *arguments: Any) -> jax.stages.Lowered:
    return jax.jit(function, keep_unused=True).lower(*arguments)


def _compile(lowered: jax.stages.Lowered) -> Any:
    text = lowered.as_text()  # without lines of code
    if text not in _compiled:
        if len(_compiled) == KEPT:
            del _compiled[next(iter(_compiled))]
        _compiled[text] = lowered.compile(compiler_options=QUICK)
    return _compiled[text]


def _parse_lowered(lowered: jax.stages.Lowered) -> HloModule:
    return _parse(lowered.compiler_ir("hlo").as_serialized_hlo_module_proto())  # type: ignore[union-attr]


def parse_text(text: str) -> HloModule:
    """Parses HLO text with jaxlib's own parser."""
    return _parse(jaxlib._hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto())


def run_text(text: str, *arguments: Any) -> list[np.ndarray[Any, Any]]:
    """Returns the results of XLA:CPU for HLO text, one array per output leaf."""
    device = jax.devices("cpu")[0]
    with _x64(True):
        results = _compile_text(text).execute_sharded([jax.device_put(np.asarray(a), device) for a in arguments])
        return [np.asarray(shards[0]) for shards in results.disassemble_into_single_device_arrays()]


@lru_cache(maxsize=KEPT)
def _compile_text(text: str) -> Any:
    serialized = jaxlib._hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
    device, options = jax.devices("cpu")[0], xla_client.CompileOptions()
    options.env_option_overrides = list(QUICK.items())
    stablehlo = jaxlib._jax.mlir.hlo_to_stablehlo(serialized)
    return device.client.compile_and_load(stablehlo, jaxlib._jax.DeviceList((device,)), options)


def evaluate_module(module: HloModule, arguments: Sequence[Any], *, partition: int = 0) -> Value:
    """Returns the results of replay for a module's entry computation."""
    return HloEvaluator(module, partition).call(module.entry.id, tuple([np.asarray(a) for a in arguments]))


def assert_equals(value: Value, expected: Sequence[Any], *, rtol: float = 0.0, by_norm: bool = False) -> None:
    """Asserts that the leaves of a value are the expected arrays; see `compare_with_xla_cpu`."""
    leaves = list(iterate_leaves(value))
    assert len(leaves) == len(expected), f"{len(leaves)} outputs, expected {len(expected)}"
    for number, (found, wanted) in enumerate(zip(leaves, expected, strict=True)):
        place = f"output {number}"
        assert isinstance(found, np.ndarray | np.generic), f"{place} is a {type(found).__name__}"
        assert found.dtype == wanted.dtype, f"{place} is {found.dtype}, expected {wanted.dtype}"
        assert found.shape == wanted.shape, f"{place} is {found.shape}, expected {wanted.shape}"
        _assert_leaf_equals(np.asarray(found), np.asarray(wanted), rtol, by_norm, place)


def iterate_leaves(value: Value) -> Iterator[Any]:
    """Yields the arrays of a value, in order."""
    if not isinstance(value, tuple):
        yield value
        return
    for child in value:
        yield from iterate_leaves(child)


@contextlib.contextmanager
def _x64(enabled: bool) -> Iterator[None]:
    with jax.enable_x64(enabled):
        yield


def _parse(serialized: bytes) -> HloModule:
    proto = HloModuleProto()
    proto.ParseFromString(serialized)
    return parse_module(proto)


def _assert_leaf_equals(found: Any, wanted: Any, rtol: float, by_norm: bool, place: str) -> None:
    if wanted.dtype.kind in "biu":
        np.testing.assert_array_equal(found, wanted, err_msg=place)
        return
    if wanted.dtype.kind == "c":
        _assert_leaf_equals(found.real, wanted.real, rtol, by_norm, f"{place}, real part")
        _assert_leaf_equals(found.imag, wanted.imag, rtol, by_norm, f"{place}, imaginary part")
        return
    # XLA:CPU flushes subnormal floats of 32 and 64 bits to zero; XLA:GPU and replay keep them
    smallest = float(ml_dtypes.finfo(wanted.dtype).tiny) if wanted.dtype in FLUSHED else 0.0
    wide = np.float64  # holds every narrower float exactly
    with np.errstate(invalid="ignore"):  # a signaling NaN
        found, wanted = found.astype(wide), wanted.astype(wide)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted), err_msg=f"NaN in {place}")
    numbers = ~np.isnan(wanted)
    if not rtol:
        np.testing.assert_array_equal(found[numbers], wanted[numbers], err_msg=place)
        np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(wanted[numbers]), err_msg=f"sign, {place}")
        return
    finite = np.isfinite(wanted)
    np.testing.assert_array_equal(found[numbers & ~finite], wanted[numbers & ~finite], err_msg=place)
    magnitude = np.abs(wanted[finite])
    scale = np.max(magnitude, initial=0.0) if by_norm else magnitude
    error = np.abs(found[finite] - wanted[finite])
    worst = np.flatnonzero(error > rtol * scale + smallest)
    assert not worst.size, (
        f"{place}: {worst.size} of {wanted.size} elements differ, such as {found[finite][worst[:5]]} "
        f"where XLA:CPU computes {wanted[finite][worst[:5]]}"
    )
