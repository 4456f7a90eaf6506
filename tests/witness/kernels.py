"""Runs the Triton kernels of an eager JAX program on the operands' own bytes, by Triton's interpreter.

An operand is the memory of its `jax.Array`: later readers of that array see what the kernel left there. An output is a
new array. An output that is declared to alias an operand starts with the operand's bytes, and the operand keeps its
own. In a `shard_map` the kernel runs once for each device, on that device's shards; bodies that `jax.checkpoint`
recomputes there run operation by operation, too. After the run, every operand gets back its contents from before its
first launch: an array that the function closes over is a constant of each execution of a compiled program.

The process must have had TRITON_INTERPRET=1 in its environment before it imported triton, and must compute on CPUs.
"""

import ctypes
import importlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any
from zlib import compress, decompress

import jax
import numpy as np

from ligerdiag.compile.lowering.traced_calls import compute_kernel_name
from ligerdiag.replay.ops.scope import NotCoveredError
from tests.oracle.grid import run_programs
from tests.oracle.launch import KernelLaunch, Scalar
from tests.oracle.narrow_floats import override

_KNOWN = frozenset({
    "fn", "scalar_args", "name", "custom_call_target_name", "out_shapes", "grid", "num_warps", "num_stages",
    "num_ctas", "compute_capability", "enable_fp_fusion", "input_output_aliases", "zeroed_outputs", "debug",
    "serialized_metadata",
})  # fmt: skip
"""Parameters of the primitive in jax-triton before 0.4; all others are constexprs of the kernel."""

_BODIES = frozenset({"checkpoint", "remat2", "jit", "pjit", "closed_call"})
"""Primitives that only run their `jaxpr`."""

type Originals = dict[int, tuple[Any, np.ndarray[Any, Any]]]
"""Maps an address to the array there, which stays alive, and to its contents before its first launch."""


@contextmanager
def run_kernels_in_place() -> Iterator[None]:
    """Makes kernels overwrite the concrete arrays that they are given; tracers are traced as usual."""
    library = importlib.import_module("jax_triton.triton_lib")
    shard_map = importlib.import_module("jax._src.shard_map")
    primitive: Any = library.triton_kernel_call_p
    originals: Originals = {}
    with ExitStack() as stack:
        stack.callback(_restore, originals)
        stack.enter_context(override(primitive, impl=partial(_run_on_whole_arrays, originals)))
        stack.enter_context(_disable_interpreter_path())
        shard_map.eager_rules[primitive] = partial(_run_on_each_device, originals)
        stack.callback(shard_map.eager_rules.pop, primitive)
        stack.enter_context(_evaluate_bodies(shard_map.ShardMapTrace))
        yield


def view_bytes(array: Any) -> np.ndarray[Any, Any]:
    """Returns the memory of an array on one device, flat and writable."""
    size = array.size * array.dtype.itemsize
    memory = (ctypes.c_uint8 * size).from_address(array.unsafe_buffer_pointer()) if size else bytearray()
    return np.frombuffer(memory, np.uint8).view(array.dtype)


def _view_and_remember(originals: Originals, array: Any) -> np.ndarray[Any, Any]:
    """Returns the memory of an array on one device, and remembers its original contents."""
    memory = view_bytes(array)
    originals.setdefault(array.unsafe_buffer_pointer(), (array, memory.copy()))
    return memory


def _restore(originals: Originals) -> None:
    for array, before in originals.values():
        view_bytes(array)[...] = before


def _run_on_whole_arrays(originals: Originals, *operands: Any, **params: Any) -> list[Any]:
    """Runs the kernel on whole arrays; joins those on several devices before, and overwrites their shards after."""
    arrays = [jax.block_until_ready(o if isinstance(o, jax.Array) else jax.numpy.array(o)) for o in operands]
    buffers = [_view_and_remember(originals, a) if len(a.devices()) == 1 else _join(a).reshape(-1) for a in arrays]
    results = _launch(buffers, params)
    sharding = arrays[0].sharding if arrays else None
    for array, buffer in zip(arrays, buffers, strict=True):
        if len(array.devices()) > 1:
            _scatter(originals, buffer.reshape(array.shape), array)
            sharding = jax.sharding.NamedSharding(array.sharding.mesh, jax.sharding.PartitionSpec())
    return [
        jax.device_put(result.reshape(out.shape), sharding)
        for result, out in zip(results, params["out_shapes"], strict=True)
    ]


def _run_on_each_device(originals: Originals, mesh: Any, *operands: Any, **params: Any) -> list[Any]:
    """Runs the kernel on the shards of each device.

    Eager `shard_map` keeps the values of all devices in one array, with a dimension of devices first.
    """
    devices = list(mesh.devices.flat)
    shards = [{shard.device: shard.data for shard in jax.block_until_ready(o).addressable_shards} for o in operands]
    for operand in operands:
        if operand.shape[0] != len(devices):
            raise NotCoveredError("a kernel in a shard_map that checks which values vary between devices")
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(mesh.axis_names))
    pieces: list[list[Any]] = [[] for _ in params["out_shapes"]]
    for device in devices:
        results = _launch([_view_and_remember(originals, shard[device]) for shard in shards], params)
        for piece, result, out in zip(pieces, results, params["out_shapes"], strict=True):
            piece.append(jax.device_put(result.reshape(1, *out.shape), device))
    for operand in operands:
        _update_host_copy(operand)
    return [
        jax.make_array_from_single_device_arrays((len(devices), *out.shape), sharding, piece)
        for out, piece in zip(params["out_shapes"], pieces, strict=True)
    ]


@contextmanager
def _evaluate_bodies(trace: Any) -> Iterator[None]:
    """Evaluates the bodies in a shard_map by operation; JAX would compile them, and no CPU can run their kernels."""
    core: Any = importlib.import_module("jax._src.core")
    process = trace.process_primitive

    def process_or_evaluate(self: Any, primitive: Any, tracers: Any, params: Any, /) -> Any:
        if primitive.name not in _BODIES:
            return process(self, primitive, tracers, params)
        body = params["jaxpr"]
        opened, constants = (body.jaxpr, body.consts) if isinstance(body, core.ClosedJaxpr) else (body, ())
        with core.set_current_trace(self):
            return core.eval_jaxpr(opened, constants, *tracers)

    with override(trace, process_primitive=process_or_evaluate):
        yield


def _join(array: Any) -> np.ndarray[Any, Any]:
    whole = np.empty(array.shape, array.dtype)
    for shard in array.addressable_shards:
        whole[shard.index] = np.asarray(shard.data)
    return whole


def _scatter(originals: Originals, whole: np.ndarray[Any, Any], array: Any) -> None:
    for shard in array.addressable_shards:
        _view_and_remember(originals, shard.data)[...] = whole[shard.index].reshape(-1)
    _update_host_copy(array)


def _update_host_copy(array: Any) -> None:
    """Updates the copy on the host that JAX keeps once an array on several devices has been read."""
    if array._npy_value is not None:
        array._npy_value = _join(array)


def _launch(operands: Sequence[Any], params: Mapping[str, Any]) -> list[Any]:
    """Runs the kernel on flat operands, which it overwrites; returns flat outputs."""
    kernel, constants = _find_kernel(params)
    aliases = dict(params["input_output_aliases"])
    buffers = [np.array(operand) if number in aliases else operand for number, operand in enumerate(operands)]
    outputs: list[Any] = []
    shared = {output: operand for operand, output in aliases.items()}
    for number, out in enumerate(params["out_shapes"]):
        size, dtype = int(np.prod(out.shape, dtype=np.int64)), np.dtype(out.dtype)
        empty = np.full(size * dtype.itemsize, 0xFF, np.uint8).view(dtype)
        outputs.append(buffers[shared[number]] if number in shared else empty)
    zeroed = params["zeroed_outputs"]
    for number in zeroed(constants) if callable(zeroed) else zeroed:
        outputs[number][...] = 0
    launch = _describe_launch(params, constants, len(buffers), len(outputs))
    _run_or_repeat(launch, kernel, [*buffers, *outputs])
    return outputs


def _run_or_repeat(launch: KernelLaunch, kernel: Any, buffers: Sequence[np.ndarray[Any, Any]]) -> None:
    """Runs the kernel, or repeats the result of an equal launch on equal bytes."""
    flat = [buffer.reshape(-1).view(np.uint8) for buffer in buffers]
    enclosed = [cell.cell_contents for cell in kernel.fn.__closure__ or ()]
    digest = sha256(repr((launch, kernel.fn.__qualname__, enclosed, [(b.dtype, b.size) for b in buffers])).encode())
    for part in (Path(kernel.fn.__code__.co_filename).read_bytes(), *flat):
        digest.update(sha256(part).digest())
    key = digest.digest()
    if key not in _RESULTS:
        run_programs(launch, kernel, buffers, round_to_nearest=True)
        _RESULTS[key] = [compress(one.tobytes(), 1) for one in flat]
    for one, left in zip(flat, _RESULTS[key], strict=True):
        one[...] = np.frombuffer(decompress(left), np.uint8)


_RESULTS: dict[bytes, list[bytes]] = {}
"""The compressed bytes after a launch, by a hash of the launch and the bytes before it."""


def _find_kernel(params: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Returns the interpreted kernel, and the values of its constexprs."""
    interpreter = importlib.import_module("triton.runtime.interpreter")
    tuner = importlib.import_module("triton.runtime.autotuner")
    constants = {name: value for name, value in params.items() if name not in _KNOWN}
    kernel = params["fn"]
    while not isinstance(kernel, interpreter.InterpretedFunction):
        if isinstance(kernel, tuner.Autotuner):
            raise NotCoveredError("an autotuned kernel")
        if isinstance(kernel, tuner.Heuristics):
            constants |= {name: compute(constants) for name, compute in kernel.values.items()}
        if not hasattr(kernel, "fn"):
            raise NotCoveredError("a kernel that Triton was not asked to interpret: TRITON_INTERPRET=1 is missing")
        kernel = kernel.fn
    return kernel, constants


def _describe_launch(
    params: Mapping[str, Any], constants: Mapping[str, Any], operands: int, outputs: int
) -> KernelLaunch:
    library = importlib.import_module("jax_triton.triton_lib")
    x, y, z = library.normalize_grid(params["grid"], dict(constants))
    scalars = tuple(Scalar(position=p, type=str(kind), value=value) for p, kind, value in params["scalar_args"])
    scalar_positions = {scalar.position for scalar in scalars}
    positions = range(operands + outputs + len(scalars))
    return KernelLaunch(
        payload="", kernel=compute_kernel_name(params), module="", file="", qualname="", source="",
        grid=(int(x), int(y), int(z)), operands=operands, outputs=outputs,
        scalars=scalars, pointers=tuple(position for position in positions if position not in scalar_positions),
        constants=dict(constants), zeroed=(), aliases={},
    )  # fmt: skip


@contextmanager
def _disable_interpreter_path() -> Iterator[None]:
    """Disables the path that this repository's kernels take when they are interpreted, which knows no hidden write."""
    try:
        calls = importlib.import_module("kernels.triton_call")
    except ModuleNotFoundError:
        yield
        return
    with override(calls, InterpretedFunction=()):
        yield
