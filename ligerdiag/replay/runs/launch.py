"""Reads the launches that the payload of a custom call describes: the kernel's Triton IR, its grid and its arguments.

Each parameter that is an array or a tensor descriptor takes the next buffer of the call: operands first, then outputs
(see `effects.kernel_effects`). The kernel gets no pointer to buffers that are left over: they share bytes with an
operand. An autotuning launcher runs each configuration and keeps the fastest. No payload says which one that is; replay
takes the first configuration, and covers the call only if all configurations have the same results. A call that
allocates memory (`jax.lax.empty`, `jax.empty_ref`) is a launch that runs no programs: it leaves its output unwritten.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ligerdiag.codec import FieldError, parse_record
from ligerdiag.effects.call import parse_configurations
from ligerdiag.effects.payload import LaunchConfiguration, Parameter
from ligerdiag.effects.ttir_module import TtirModule, parse_ttir
from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.custom_calls import ALLOCATES, CallTrait, has_trait
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.replay.ops.scope import Array, NotCoveredError
from ligerdiag.replay.triton_ir.interpreter import find_accesses, run_grid
from ligerdiag.replay.triton_ir.outcome import GridOptions, GridOutcome
from ligerdiag.untrusted_files import MAXIMUM_JSON_BYTES, read_untrusted

_NUMBERS: dict[str, Any] = {
    "i1": np.bool_,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "f32": np.float32,
    "f64": np.float64,
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Launch:
    """One launch that a kernel call may make: a kernel, its grid and its arguments, in one configuration."""

    kernel: str
    module: TtirModule
    """The parsed Triton IR of the kernel; it has no functions if the call runs nothing."""
    grid: tuple[int, int, int]
    arguments: tuple[int | Any, ...]
    """For each argument of the kernel, the number of its buffer or a NumPy scalar."""
    zeroed: tuple[tuple[int, int], ...]
    """(number of a buffer, number of bytes from its start) for each buffer that the launcher zeroes before the kernel
    runs.
    """

    @property
    def programs(self) -> int:
        """Returns the number of programs of the grid."""
        return prod(self.grid)

    def run(self, buffers: Sequence[Array], options: GridOptions) -> GridOutcome:
        """Runs the kernel on flat buffers and overwrites them. The operands come first, then the outputs. Raises
        NotCoveredError if the kernel has an operation that replay does not cover.
        """
        if not self.module.functions:
            return _NO_PROGRAMS
        arguments = [buffers[one] if type(one) is int else one for one in self.arguments]
        try:
            return run_grid(self.module, self.kernel, arguments, self.grid, options=options)
        except NotCoveredError as error:
            raise NotCoveredError(f"kernel `{self.kernel}`: {error}") from error

    def list_reading(self) -> tuple[int, ...]:
        """Returns the numbers of the kernel's buffer arguments that the kernel may read."""
        if not self.module.functions:
            return ()
        return tuple(
            number
            for number, (argument, access) in enumerate(
                zip(self.arguments, find_accesses(self.module, self.kernel), strict=True)
            )
            if type(argument) is int and access.reads
        )

    def zero(self, buffers: Sequence[Array]) -> None:
        """Zeroes those bytes of the buffers that the launcher zeroes before the kernel runs."""
        for number, size in self.zeroed:
            buffers[number].view(np.uint8)[:size] = 0


_NO_PROGRAMS = GridOutcome()
_ALLOCATES = Launch(
    kernel=ALLOCATES, module=TtirModule(functions={}, has_lines=False), grid=(0, 0, 0), arguments=(), zeroed=()
)
"""The launch of a call that allocates memory and writes nothing there."""


def compute_payload_key(call: HloInstruction) -> str:
    """Returns a hash of a kernel call's target and payload. Calls with equal hashes launch the same kernel in the same
    way.
    """
    return sha256(call.proto.custom_call_target.encode() + b"\0" + call.proto.backend_config).hexdigest()


def list_modules(program: HloModule) -> tuple[bytes, ...]:
    """Returns the Triton IR of each kernel that the program calls, without duplicates. A call whose payload cannot be
    read is skipped.
    """
    found: dict[bytes, None] = {}
    for _, call in program.iterate_custom_calls():
        with suppress(ArtifactError):
            configurations = parse_configurations(call.proto.custom_call_target, call.proto.backend_config)
            found |= dict.fromkeys([one.mlir for one in configurations])
    return tuple(found)


def read_launches(call: HloInstruction, buffers: int, modules: Mapping[str, Path]) -> tuple[Launch, ...]:
    """Returns the launches of a kernel call: one, or one for each configuration of an autotuned kernel. Raises
    NotCoveredError if replay cannot run one of them.

    buffers: number of the call's operands and outputs. modules: see `KernelRunner`.
    """
    target = call.proto.custom_call_target
    if has_trait(target, CallTrait.ALLOCATES):
        return (_ALLOCATES,)
    try:
        configurations = parse_configurations(target, call.proto.backend_config)
    except ArtifactError as error:
        raise NotCoveredError(f"`{call.name}`: {error}") from error
    if not configurations:
        raise NotCoveredError(f"a call of `{target}`, which carries no Triton IR")
    known: dict[bytes, TtirModule] = {}
    return tuple([_read_launch(one, buffers, modules, known) for one in configurations])


def count_programs(call: HloInstruction) -> int:
    """Returns the number of programs that a kernel call launches. For several configurations, returns the largest
    number. If it is unknown, returns 1.
    """
    try:
        configurations = parse_configurations(call.proto.custom_call_target, call.proto.backend_config)
    except ArtifactError:
        return 1
    return max((prod(one.grid) for one in configurations), default=1)


def _read_module(source: bytes, modules: Mapping[str, Path]) -> TtirModule:
    path = modules.get(sha256(source).hexdigest())
    return parse_ttir(source) if path is None else parse_record(TtirModule, read_untrusted(path, MAXIMUM_JSON_BYTES))


def _read_launch(
    configuration: LaunchConfiguration, buffers: int, modules: Mapping[str, Path], known: dict[bytes, TtirModule]
) -> Launch:
    kernel = configuration.function
    try:
        if configuration.mlir not in known:
            known[configuration.mlir] = _read_module(configuration.mlir, modules)
    except (ArtifactError, FieldError) as error:
        raise NotCoveredError(f"kernel `{kernel}`: {error}") from error
    module = known[configuration.mlir]
    function = module.functions.get(kernel)
    if function is None:
        raise NotCoveredError(f"kernel `{kernel}`: the Triton IR of its call has no function of this name")
    types = [function.types[value] for value in function.arguments]
    parameters = configuration.parameters or tuple([Parameter(is_buffer=True)] * len(types))
    if len(parameters) != len(types):
        raise NotCoveredError(
            f"kernel `{kernel}`: it takes {len(types)} arguments, but its call passes {len(parameters)}"
        )
    if min(configuration.grid) < 0:
        raise NotCoveredError(f"kernel `{kernel}`: the size of its grid is unknown")
    arguments: list[int | Any] = []
    zeroed: list[tuple[int, int]] = []
    next_buffer = 0
    for parameter, text in zip(parameters, types, strict=True):
        if parameter.is_descriptor:
            raise NotCoveredError(
                f"kernel `{kernel}`: it takes a tensor descriptor that its launcher makes, and replay cannot make one"
            )
        if not parameter.is_buffer:
            arguments.append(_make_scalar(kernel, parameter, text))
            continue
        if parameter.bytes_to_zero:
            zeroed.append((next_buffer, parameter.bytes_to_zero))
        arguments.append(next_buffer)
        next_buffer += 1
    if next_buffer > buffers:
        raise NotCoveredError(f"kernel `{kernel}`: it takes {next_buffer} buffers, but its call passes {buffers}")
    return Launch(
        kernel=kernel, module=module, grid=configuration.grid, arguments=tuple(arguments), zeroed=tuple(zeroed)
    )


def _make_scalar(kernel: str, parameter: Parameter, text: str) -> Any:
    kind = _NUMBERS.get(text)
    if kind is None or parameter.number is None:
        raise NotCoveredError(f"kernel `{kernel}`: it takes a scalar of type {text}, which replay cannot pass")
    if isinstance(parameter.number, int) and kind not in (np.float32, np.float64, np.bool_):
        width = 8 * np.dtype(kind).itemsize
        wrapped = parameter.number & ((1 << width) - 1)
        return np.array(wrapped, f"u{width // 8}").view(kind)[()]
    return kind(parameter.number)


ALIGNMENT = 64
"""Bytes to whose multiples buffers are aligned when they are copied; at least the alignment of NumPy's own allocations.
"""


def do_share(one: Array, other: Array) -> bool:
    """Returns whether two flat, contiguous arrays have a byte in common."""
    start, begin = one.ctypes.data, other.ctypes.data
    return start < begin + other.nbytes and begin < start + one.nbytes


def copy_buffers(buffers: Sequence[Array]) -> tuple[Array, ...]:
    """Returns copies of the buffers. Where two buffers share bytes, their copies share bytes, too."""
    order = sorted(range(len(buffers)), key=lambda number: buffers[number].ctypes.data)
    offsets, base, end, size = [0] * len(buffers), 0, 0, 0
    for number in order:
        start = buffers[number].ctypes.data
        if start >= end:
            base = -(-size // ALIGNMENT) * ALIGNMENT - start
        end = max(end, start + buffers[number].nbytes)
        offsets[number] = base + start
        size = max(size, offsets[number] + buffers[number].nbytes)
    block = np.empty(size, np.uint8)
    copies = tuple(
        block[offset : offset + buffer.nbytes].view(buffer.dtype)
        for offset, buffer in zip(offsets, buffers, strict=True)
    )
    for copy, buffer in zip(copies, buffers, strict=True):
        copy[...] = buffer
    return copies
