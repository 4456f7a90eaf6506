"""Programs that donate arrays which no output takes."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import lax

from ligerdiag import Arg, Case


def own(*shape, dtype="float32"):
    return Arg(shape=shape, dtype=dtype, donate=True)


def lend(*shape, dtype="float32"):
    return Arg(shape=shape, dtype=dtype)


@jax.tree_util.register_dataclass
@dataclass
class Layer:
    kernel: object
    bias: object


def cast_half(x):
    return (x * 3).astype(jnp.float16)


def to_labels(scores):
    """Same number of elements, integers."""
    return jnp.argsort(scores, axis=-1)


def threshold(image):
    return image > 0.5


def flatten(x):
    return x.reshape(-1) * 2


def pad_rows(x):
    return jnp.pad(x, ((0, 16), (0, 0)))


def mean_of_three(a, b, c):
    return (a + b + c) / 3


def ignore_second(x, scratch):
    return x + 1


def shift(state):
    """The momentum becomes bf16: JAX gives its bytes to the next output, and so on."""
    return {name: jnp.cos(value).astype("bfloat16" if name == "m" else "float32") for name, value in state.items()}


def shift_by_place(a, b):
    return jnp.cos(a).astype("bfloat16"), jnp.sin(b)


def cast_last(state):
    return {"m": jnp.cos(state["m"]), "w": jnp.sin(state["w"]).astype("bfloat16")}


def logits_and_loss(layer, x, y):
    logits = x @ layer.kernel + layer.bias
    return jnp.mean((logits - y) ** 2), logits.argmax(-1)


def update_kernel_only(layer, x):
    """The bias is frozen and not returned."""
    grads = jax.grad(lambda k: jnp.mean((x @ k + layer.bias) ** 2))(layer.kernel)
    return layer.kernel - 0.1 * grads


def pop_last(queue, size):
    return lax.dynamic_index_in_dim(queue, size, 0, keepdims=False)


def downsample(image):
    return image.reshape(256, 2, 256, 2).mean((1, 3))


def embed(table, ids):
    return table[ids]


def quantise_weights(w):
    scale = jnp.abs(w).max(0) / 127
    return (w / scale).round().astype(jnp.int8), scale


def attention_scores(q, k):
    return jnp.einsum("bqd,bkd->bqk", q, k)


def dequantise(q, scale):
    return q.astype(jnp.float32) * scale


def offload(x):
    return jax.device_put(2 * x, jax.memory.Space.Host)


def fetch(x):
    return 2 * jax.device_put(x, jax.memory.Space.Device)


def offload_one(x):
    return jax.device_put(2 * x, jax.memory.Space.Host), x * 3


def update_on_host(x):
    return offload(fetch(x))


def hold(*shape):
    """Returns an argument in the memory of the host."""
    return Arg(shape=shape, donate=True, memory="pinned_host")


CASES = (
    Case(name="offload_all", function=offload, args=(own(256, 256),)),
    Case(name="fetch", function=fetch, args=(hold(256, 256),)),
    Case(name="offload_one", function=offload_one, args=(own(256, 256),)),
    Case(name="update_on_host", function=update_on_host, args=(hold(256, 256),)),
    Case(name="cast_half", function=cast_half, args=(own(1024, 256),)),
    Case(name="to_labels", function=to_labels, args=(own(256, 512),)),
    Case(name="threshold", function=threshold, args=(own(512, 512),)),
    Case(name="flatten", function=flatten, args=(own(256, 512),)),
    Case(name="pad_rows", function=pad_rows, args=(own(240, 512),)),
    Case(name="mean_of_three", function=mean_of_three, args=(own(256, 1024), own(256, 1024), own(256, 1024))),
    Case(name="keep_second", function=ignore_second, args=(own(256, 1024), own(512, 1024)), keep_unused=True),
    Case(name="shifted", function=shift, args=({name: own(256, 256) for name in "kmpw"},)),
    Case(name="shifted_by_place", function=shift_by_place, args=(own(256, 256), own(256, 256))),
    Case(name="last_in_another_dtype", function=cast_last, args=({name: own(256, 256) for name in "mw"},)),
    Case(name="ignore_second", function=ignore_second, args=(own(256, 1024), own(512, 1024))),
    Case(
        name="logits_and_loss",
        function=logits_and_loss,
        args=(Layer(own(512, 1024), own(1024)), lend(64, 512), lend(64, 1024)),
    ),
    Case(
        name="update_kernel_only", function=update_kernel_only, args=(Layer(own(512, 4096), own(4096)), lend(64, 512))
    ),
    Case(name="pop_last", function=pop_last, args=(own(64, 128, 128), lend(dtype="int32"))),
    Case(name="downsample", function=downsample, args=(own(512, 512),)),
    Case(name="embed", function=embed, args=(own(4096, 128, dtype="bfloat16"), lend(256, dtype="int32"))),
    Case(name="quantise_weights", function=quantise_weights, args=(own(1024, 1024),)),
    Case(name="attention_scores", function=attention_scores, args=(own(4, 256, 64), own(4, 256, 64))),
    Case(name="dequantise", function=dequantise, args=(own(512, 512, dtype="int8"), lend(512))),
)
