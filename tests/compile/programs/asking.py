"""Programs that choose their kernel by JAX's answers about the devices, in the ways public code asks."""

from functools import partial
from typing import Any

import jax
import jax_triton as jt
import triton
import triton.language as tl
from jax import default_backend as asked_by_name
from jax import devices as listed_by_name
from jax._src import xla_bridge
from jax.experimental import mesh_utils
from jax.extend import backend as extended

from ligerdiag import Arg, Case

SIZE = 256
AT_IMPORT = jax.default_backend() == "gpu"
KIND_AT_IMPORT = jax.devices()[0].device_kind
CAPABILITY_AT_IMPORT = getattr(jax.local_devices()[0], "compute_capability", "0.0")


@triton.jit
def scale_kernel(x_ptr, sum_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.store(sum_ptr, tl.sum(x * x))
    tl.store(x_ptr + at, 2 * x)


def by_kernel(x: Any) -> Any:
    shape = jax.ShapeDtypeStruct((), "float32")
    return jt.triton_call(x, kernel=scale_kernel, out_shape=shape, grid=1, N=SIZE)


def step(asks: Any, a: Any) -> Any:
    x = a + 1.0
    total = by_kernel(x) if asks() else (x * x).sum()
    return {"total": total, "back": x * 3.0}


def is_found_in_the_platforms() -> bool:
    try:
        return bool(jax.devices("gpu"))
    except RuntimeError:
        return False


ASKS = {
    "default_backend": lambda: jax.default_backend() == "gpu",
    "by_name": lambda: asked_by_name() == "gpu",
    "platform": lambda: jax.devices()[0].platform == "gpu",
    "any": lambda: any(device.platform == "gpu" for device in listed_by_name()),
    "local": lambda: jax.local_devices()[0].platform in ("gpu", "cuda"),
    "kind": lambda: "H100" in jax.devices()[0].device_kind,
    "capability": lambda: float(jax.devices()[0].compute_capability) >= 8.0,
    "named": is_found_in_the_platforms,
    "client": lambda: extended.get_backend().platform == "gpu",
    "inner": lambda: xla_bridge.default_backend() == "gpu" and xla_bridge.get_backend().platform == "gpu",
    "inner_devices": lambda: "H100" in xla_bridge.devices()[0].device_kind,
    "mesh": lambda: "H100" in mesh_utils.create_device_mesh((1,)).flat[0].device_kind,
    "default_device": lambda: extended.get_default_device().core_count > 100,
    "at_import": lambda: AT_IMPORT,
    "kind_at_import": lambda: "H100" in KIND_AT_IMPORT,
    "capability_at_import": lambda: float(CAPABILITY_AT_IMPORT) == 9.0,
    "not_cpu": lambda: jax.default_backend() != "cpu" and jax.devices("cpu")[0].platform == "cpu",
    "one": lambda: jax.device_count() == jax.local_device_count() == jax.process_count() == 1,
}

CASES = tuple(
    Case(name="asking", params=(name,), function=partial(step, asks), args=(Arg(shape=(SIZE,)),))
    for name, asks in ASKS.items()
)


def count(a: Any) -> Any:
    mesh = jax.make_mesh((4,), ("x",))
    assert mesh.devices.size == jax.device_count() == 4
    return {"back": step(ASKS["platform"], a)["back"]}
