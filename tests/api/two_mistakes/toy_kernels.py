"""RMSNorm and cross entropy in Liger's style. Both overwrite an operand without telling XLA: these are the two
mistakes.
"""

from typing import Any

import jax
import jax.numpy as jnp
import jax_triton as jt
import triton
import triton.language as tl


@triton.jit
def norm_forward_kernel(x_ptr, y_ptr, COLUMNS: tl.constexpr):
    offsets = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + offsets)
    tl.store(y_ptr + offsets, x / tl.sqrt(tl.sum(x * x, axis=0) / COLUMNS + 1e-6))


@triton.jit
def write_gradient(dy_ptr, dx_ptr, x_ptr, COLUMNS: tl.constexpr):
    offsets = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    x, dy = tl.load(x_ptr + offsets), tl.load(dy_ptr + offsets)
    r = 1.0 / tl.sqrt(tl.sum(x * x, axis=0) / COLUMNS + 1e-6)
    tl.store(dx_ptr + offsets, r * dy - r * r * r * x * tl.sum(dy * x, axis=0) / COLUMNS)  # over dy


@triton.jit
def norm_backward_kernel(dy_ptr, x_ptr, norms_ptr, COLUMNS: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS))
    tl.store(norms_ptr + tl.program_id(0), 1.0 / tl.sqrt(tl.sum(x * x, axis=0) / COLUMNS + 1e-6))
    write_gradient(dy_ptr, dy_ptr, x_ptr, COLUMNS)


@triton.jit
def loss_kernel(logits_ptr, labels_ptr, loss_ptr, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, COLUMNS)
    x = tl.load(logits_ptr + row * COLUMNS + columns)
    label = tl.load(labels_ptr + row)
    e = tl.exp(x - tl.max(x, axis=0))
    s = tl.sum(e, axis=0)
    tl.store(loss_ptr + row, tl.log(s) + tl.max(x, axis=0) - tl.sum(tl.where(columns == label, x, 0.0), axis=0))
    tl.store(logits_ptr + row * COLUMNS + columns, e / s - tl.where(columns == label, 1.0, 0.0))  # over the logits


def _sums(x: Any) -> Any:
    return jax.ShapeDtypeStruct(x.shape[:1], jnp.float32)


@jax.custom_vjp
def norm(x, w):
    return w * jt.triton_call(x, kernel=norm_forward_kernel, out_shape=x, grid=x.shape[:1], COLUMNS=x.shape[1])


def _norm_backward(saved, dy):
    x, w = saved
    dx = dy * w
    norms = jt.triton_call(
        dx,
        x,
        kernel=norm_backward_kernel,
        out_shape=_sums(x),
        grid=x.shape[:1],
        COLUMNS=x.shape[1],
    )
    return dx, (dy * x * norms[:, None]).sum(0)


norm.defvjp(lambda x, w: (norm(x, w), (x, w)), _norm_backward)


def _launch(logits, labels):
    return jt.triton_call(
        logits, labels, kernel=loss_kernel, out_shape=_sums(logits), grid=logits.shape[:1], COLUMNS=logits.shape[1]
    )


@jax.custom_vjp
def loss(logits, labels):
    return _launch(logits, labels).mean()


def _loss_forward(logits, labels):
    return _launch(logits, labels).mean(), logits


def _loss_backward(gradient, g):
    return (g / gradient.shape[0]) * gradient, None


loss.defvjp(_loss_forward, _loss_backward)
