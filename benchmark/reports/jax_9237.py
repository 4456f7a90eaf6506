"""A user does not understand JAX's warning about donated buffers: the batch is donated, and no output looks like it.

Structure: a training step donates weights, images and labels, and returns new weights and a loss.

The right answer: the weights' output takes the weights' bytes. Nothing has the shape of the images (96 KiB) or of the
labels, so these donations are void: the first operation that reads the images is the line. The cured twin donates the
weights alone.
"""

import jax
import jax.numpy as jnp

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case, Draw


def step(weights, images, labels):
    def compute_loss(weights):
        flat = images.reshape(images.shape[0], -1)  # at: images_line
        logits = flat @ weights  # at: product
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=1).mean()  # at: labels

    loss, gradient = jax.value_and_grad(compute_loss)(weights)
    return {"loss": loss, "weights": weights - 0.1 * gradient}


def make_args(*, donate):
    images = Arg(shape=(32, 16, 16, 3), donate=donate)
    labels = Arg(shape=(32,), dtype="int32", donate=donate, draw=Draw(kind="randint", low=0, high=16))
    return (Arg(shape=(768, 16), donate=True), images, labels)


REPORT = Report(
    link="https://github.com/jax-ml/jax/issues/9237",
    year=2022,
    versions="jax 0.2.27",
    kind=Kind.VOID_DONATION,
    reported="the warning about donated images and labels that are not usable is not understood",
    finds=Wrong(at=("images_line", "product")),
)
BAD = Case(name="jax_9237", params=("bad",), function=step, args=make_args(donate=True))
CURED = Case(name="jax_9237", params=("cured",), function=step, args=make_args(donate=False))
CASES = (BAD, CURED)
