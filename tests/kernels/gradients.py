"""Code that tests/kernels runs in the other process: errors of a kernel's outputs and gradients relative to its
reference.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from unittest.mock import patch

import jax
import jax.numpy as jnp
import numpy as np
from differences import Errors, compute_relative_error

from kernels.fused_linear_jsd.api import fused_linear_jsd
from kernels.fused_linear_jsd.reference import fused_linear_jsd as fused_linear_jsd_reference
from kernels.geglu.api import geglu
from kernels.geglu.reference import geglu as geglu_reference
from kernels.jsd.api import jsd
from kernels.jsd.reference import jsd as jsd_reference
from kernels.kl_div import triton as kl_div_triton
from kernels.kl_div.api import kl_div
from kernels.kl_div.reference import kl_div as kl_div_reference
from kernels.layer_norm import triton as layer_norm_triton
from kernels.layer_norm.api import layer_norm
from kernels.layer_norm.reference import layer_norm as layer_norm_reference
from kernels.rms_norm import triton as rms_norm_triton
from kernels.rms_norm.api import rms_norm
from kernels.rms_norm.reference import rms_norm as rms_norm_reference
from kernels.rope.api import rope
from kernels.rope.reference import compute_angles
from kernels.rope.reference import rope as rope_reference
from kernels.swiglu.api import swiglu
from kernels.swiglu.reference import swiglu as swiglu_reference

PAIRS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "rms_norm": (rms_norm, rms_norm_reference),
    "layer_norm": (layer_norm, layer_norm_reference),
    "swiglu": (swiglu, swiglu_reference),
    "geglu": (geglu, geglu_reference),
    "rope": (rope, rope_reference),
    "kl_div": (kl_div, kl_div_reference),
    "jsd": (jsd, jsd_reference),
    "fused_linear_jsd": (fused_linear_jsd, fused_linear_jsd_reference),
}
"""Name to the kernel's function and the one in plain jnp."""


def compare(
    name: str, shapes: Sequence[tuple[int, ...]], *, dtype: str = "float32", masked: bool = False, **options: Any
) -> Errors:
    """Draws arrays of these shapes, gives every element of the outputs a weight, and differentiates the sum.

    The reference computes in f32 on the same rounded arrays. RoPE's angles are added and not differentiated. masked:
    every third row does not count. The reference does not get options that only the kernel has (mode, ...).
    """
    keys = jax.random.split(jax.random.key(0), len(shapes))
    arrays = [jax.random.normal(key, shape).astype(dtype) for key, shape in zip(keys, shapes, strict=True)]
    count = len(arrays)
    if name in ("kl_div", "jsd", "fused_linear_jsd"):
        count //= 2  # the teacher gets no gradient
    if name == "rope":
        arrays += compute_angles(shapes[0][-3], shapes[0][-1])
    if masked:
        options["where"] = (jnp.arange(np.prod(shapes[0][:-1])) % 3 != 1).reshape(shapes[0][:-1])
    function, reference = PAIRS[name]
    plain = {option: value for option, value in options.items() if option not in KERNEL_OPTIONS}
    actual = _differentiate(partial(function, **options), count, arrays)
    wanted = _differentiate(partial(reference, **plain), count, [array.astype(jnp.float32) for array in arrays])
    outputs = len(actual) - count
    for array, gradient in zip(arrays, actual[outputs:], strict=False):
        assert gradient.dtype == array.dtype
    names = [f"output {i}" for i in range(outputs)] + [f"gradient {i}" for i in range(count)]
    return {
        one: compute_relative_error(found, expected) for one, found, expected in zip(names, actual, wanted, strict=True)
    }


def compare_with_programs(name: str, shapes: Sequence[tuple[int, ...]], *, programs: int) -> Errors:
    """Like `compare`, with this number of programs of the backward kernel."""
    with patch.object({"rms_norm": rms_norm_triton, "layer_norm": layer_norm_triton}[name], "PROGRAMS", programs):
        return compare(name, shapes)


def compare_in_blocks(name: str, shapes: Sequence[tuple[int, ...]], max_block: int, **options: Any) -> Errors:
    """Like `compare`, with programs that hold at most this many elements of a row."""
    with patch.object(kl_div_triton, "MAX_BLOCK", max_block):
        return compare(name, shapes, **options)


KERNEL_OPTIONS = ("mode", "logits_bytes", "accumulate")


def _differentiate(function: Callable[..., Any], count: int, arrays: Sequence[jax.Array]) -> list[jax.Array]:
    """Returns the outputs and the gradients of the first `count` arrays."""

    def weighted(*arrays: jax.Array) -> tuple[jax.Array, list[jax.Array]]:
        outputs = jax.tree.leaves(function(*arrays))
        sums = [
            (output.astype(jnp.float32) * jax.random.normal(jax.random.key(7 + i), output.shape)).sum()
            for i, output in enumerate(outputs)
        ]
        return sum(sums[1:], sums[0]), outputs

    gradients, outputs = jax.grad(weighted, argnums=tuple(range(count)), has_aux=True)(*arrays)
    return [*outputs, *gradients]


def compute(name: str, arrays: Sequence[Any], *, reference: bool = False, **options: Any) -> list[Any]:
    """Returns the outputs of f32 arrays and the gradient of their sum with respect to the first, as NumPy arrays."""
    function = partial(PAIRS[name][reference], **options)

    def summed(*arrays: jax.Array) -> tuple[jax.Array, list[jax.Array]]:
        outputs = jax.tree.leaves(function(*arrays))
        return sum(output.sum() for output in outputs), outputs

    given = [jnp.asarray(array, jnp.float32) for array in arrays]
    gradient, outputs = jax.grad(summed, has_aux=True)(*given)
    return [np.asarray(array) for array in (*outputs, gradient)]
