"""Kernels for the runner's tests, and `run`, which runs one from the custom call that jax-triton would make."""

import importlib
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import triton
import triton.language as tl

from ligerdiag.effects import triton_call_pb2
from ligerdiag.hlo.module import HloInstruction
from ligerdiag.hlo.parse import parse_hlo
from ligerdiag.model.findings import LaunchNumbers
from ligerdiag.replay.runs.kernels import KernelRunner
from tests.hlo.building import Builder
from tests.oracle.frontend import build_ttir
from tests.replay.triton_ir.oracle import NAMES


@triton.jit
def double_kernel(x_ptr, o_ptr, BLOCK: tl.constexpr):
    """Overwrites its operand and returns the old content."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    tl.store(x_ptr + offsets, x * 2)
    tl.store(o_ptr + offsets, x)


@triton.jit
def rounds_kernel(x_ptr, n, o_ptr, BLOCK: tl.constexpr):
    """Copies the first n elements block by block."""
    for start in range(0, n, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        tl.store(o_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n), mask=offsets < n)


@triton.jit
def half_kernel(x_ptr, o_ptr, BLOCK: tl.constexpr):
    """Writes the even elements of its output."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o_ptr + offsets, tl.load(x_ptr + offsets), mask=offsets % 2 == 0)


@triton.jit
def neighbour_kernel(x_ptr, o_ptr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Adds the next row to each row."""
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    below = tl.load(x_ptr + (row + 1) % ROWS * BLOCK + columns)
    tl.store(o_ptr + row * BLOCK + columns, tl.load(x_ptr + row * BLOCK + columns) + below)


@triton.jit
def twice_over_kernel(x_ptr, o_ptr, BLOCK: tl.constexpr):
    """Each program is alone in its row but reads its own stores: only shared bytes make this visible."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o_ptr + offsets, tl.load(x_ptr + offsets) * 2)
    tl.store(o_ptr + offsets, tl.load(x_ptr + offsets) + 1)


@triton.jit
def through_operand_kernel(x_ptr, o_ptr, BLOCK: tl.constexpr):
    """Relies on the declared alias and writes through the operand's pointer."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, tl.load(x_ptr + offsets) * 2)


@triton.jit
def both_ways_kernel(x_ptr, y_ptr, ox_ptr, oy_ptr, BLOCK: tl.constexpr):
    """Writes x through the operand's pointer and y through the output's."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, tl.load(x_ptr + offsets) * 2)
    tl.store(oy_ptr + offsets, tl.load(y_ptr + offsets) * 2)


@triton.jit
def neighbour_through_operand_kernel(x_ptr, o_ptr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Overwrites each row with its sum with the next one, undeclared."""
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * BLOCK + columns)
    tl.store(x_ptr + row * BLOCK + columns, x + tl.load(x_ptr + (row + 1) % ROWS * BLOCK + columns))
    tl.store(o_ptr + row, tl.sum(x))


@triton.jit
def running_kernel(x_ptr, o_ptr, BLOCK: tl.constexpr):
    """Adds each row to the result of the program before."""
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    above = tl.load(o_ptr + (row - 1) * BLOCK + columns, mask=row > 0, other=0.0)
    tl.store(o_ptr + row * BLOCK + columns, above + tl.load(x_ptr + row * BLOCK + columns))


@triton.jit
def everyone_kernel(x_ptr, o_ptr, BLOCK: tl.constexpr):
    """Every program writes the same to the same place."""
    tl.store(o_ptr + tl.arange(0, BLOCK), tl.load(x_ptr + tl.arange(0, BLOCK)))


@triton.jit
def past_kernel(x_ptr, o_ptr, BLOCK: tl.constexpr):
    """Reads one element past the end, and writes one before the start of its output."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o_ptr + offsets - 1, tl.load(x_ptr + offsets + 1))


@triton.jit
def total_kernel(x_ptr, sum_ptr, BLOCK: tl.constexpr):
    """Adds its part to the current content."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(sum_ptr, tl.sum(tl.load(x_ptr + offsets)))


@triton.jit
def product_kernel(x_ptr, factor, one, o_ptr, type_ptr, nothing, SIZE: tl.constexpr, unannotated, TYPE: tl.constexpr):
    offsets = tl.arange(0, SIZE) * one
    if nothing is None:
        tl.store(o_ptr + offsets, (tl.load(x_ptr + offsets) * factor).to(TYPE))
    tl.store(type_ptr, factor)
    tl.store(type_ptr + 1, tl.sum(tl.full((unannotated,), 1.0, tl.float64)))
    tl.store(type_ptr + 2, tl.sum((tl.full((1,), 127, tl.int8) + one).to(tl.float64)))


@triton.jit
def place_kernel(o_ptr, ROWS: tl.constexpr, HEIGHT: tl.constexpr, DEPTH: tl.constexpr):
    """Stores the place of each program in the grid."""
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    place = (x * tl.num_programs(1) + y) * tl.num_programs(2) + z
    tl.store(o_ptr + (x * HEIGHT + y) * DEPTH + z, place)


@triton.jit
def convert_kernel(x_ptr, o_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(o_ptr + offsets, tl.load(x_ptr + offsets))


@triton.jit
def square_kernel(x_ptr, o_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    tl.store(o_ptr + offsets, x * x)


@triton.jit
def sum_kernel(x_ptr, o_ptr, BLOCK: tl.constexpr):
    tl.store(o_ptr, tl.sum(tl.load(x_ptr + tl.arange(0, BLOCK))))


@triton.jit
def fail_late_kernel(x_ptr, o_ptr, BLOCK: tl.constexpr):
    """The last program lacks something."""
    row = tl.program_id(0)
    tl.store(x_ptr + row * BLOCK + tl.arange(0, BLOCK), 1.0)
    if row == tl.num_programs(0) - 1:
        tl.store(o_ptr, tl.inline_asm_elementwise("mov.b32 $0, 7;", "=r", [], dtype=tl.int32, is_pure=True, pack=1))


_FIELDS = {"i1": "bool_", "i32": "i32", "u32": "u32", "i64": "i64", "u64": "u64", "fp32": "f32", "fp64": "f64"}


def make_call(
    kernel: str,
    operands: Sequence[Any],
    outputs: Sequence[Any],
    *,
    grid: Sequence[int],
    constants: Mapping[str, Any] | None = None,
    scalars: Mapping[str, tuple[str, float]] | None = None,
    zeroed: Sequence[int] = (),
    configurations: int = 1,
) -> HloInstruction:
    """The custom call of the kernel of this module, or of the one with that dotted name.

    scalars: name of a parameter to its type and value. zeroed: numbers of outputs that the launcher sets to zero first.
    """
    module, _, name = kernel.rpartition(".")
    function = getattr(importlib.import_module(module or __name__), name)
    constants, scalars = constants or {}, scalars or {}
    buffers = iter([*operands, *outputs])
    signature: dict[str, str] = {}
    call = triton_call_pb2.TritonKernelCall()
    taken = 0
    for parameter in function.arg_names:
        if parameter in scalars:
            kind, value = scalars[parameter]
            signature[parameter] = kind
            setattr(call.parameters.add(), _FIELDS[kind], value)
        elif parameter not in constants:
            buffer = next(buffers)
            signature[parameter] = f"*{NAMES[buffer.dtype.name]}"
            size = buffer.nbytes if taken - len(operands) in zeroed else 0
            call.parameters.add().array.bytes_to_zero = size
            taken += 1
    text = build_ttir(function, signature, dict(constants)).decode()
    call.kernel.ttir, call.kernel.kernel_name = text, name
    call.grid_0, call.grid_1, call.grid_2 = (*grid, 1, 1)[:3]
    payload = triton_call_pb2.TritonAnyKernelCall(kernel_call=call)
    if configurations > 1:
        configs = [triton_call_pb2.TritonAutotunedKernelCall.Config(kernel_call=call)] * configurations
        payload = triton_call_pb2.TritonAnyKernelCall(
            autotuned_kernel_call=triton_call_pb2.TritonAutotunedKernelCall(configs=configs)
        )
    return make_custom_call("triton_kernel_call", zlib.compress(payload.SerializeToString()))


def make_custom_call(target: str, backend_config: bytes) -> HloInstruction:
    builder = Builder()
    made = builder.add(builder.computation("entry"), "custom-call")
    made.custom_call_target, made.backend_config = target, backend_config
    return parse_hlo(builder.bytes())[0].entry.root


def run(
    kernel: str,
    operands: Any,
    outputs: Any,
    *,
    share: dict[int, int] | None = None,
    times: int = 1,
    watched: bool = True,
    runner: dict[str, Any] | None = None,
    **fields: Any,
) -> tuple[list[np.ndarray], list[np.ndarray], tuple[LaunchNumbers, ...]]:
    """Runs the kernel; output `share[i]` has operand i's bytes.

    Returns operands and outputs after the kernel, and the observations. `runner` goes to the KernelRunner, `fields` to
    `make_call`.
    """
    call = make_call(kernel, operands, outputs, **fields)
    operands = [np.array(operand) for operand in operands]
    outputs = [np.array(output) for output in outputs]
    for operand, output in (share or {}).items():
        outputs[output] = operands[operand]
    opened = KernelRunner(**runner or {})
    for _ in range(times):
        opened.launch(call, operands, outputs, watched=watched)
    return operands, outputs, opened.numbers()
