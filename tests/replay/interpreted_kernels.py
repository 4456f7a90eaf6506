"""Kernels for the runner's tests, and `run`, which is called in a process with TRITON_INTERPRET=1."""

from typing import Any

import numpy as np
import triton
import triton.language as tl

from ligerdiag.artifacts.call_records import KernelLaunch, compute_source_sha256
from ligerdiag.model.findings import LaunchNumbers
from ligerdiag.replay.kernels.kernels import KernelRunner


@triton.jit
def double_kernel(x_ptr, o_ptr, BLOCK: tl.constexpr):
    """Overwrites its operand, and returns what it read."""
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
    """Each program is alone in its row, but reads again what it has stored: only its bytes being shared shows it."""
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
    """Overwrites each row with its sum with the next, behind everybody's back."""
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * BLOCK + columns)
    tl.store(x_ptr + row * BLOCK + columns, x + tl.load(x_ptr + (row + 1) % ROWS * BLOCK + columns))
    tl.store(o_ptr + row, tl.sum(x))


@triton.jit
def total_kernel(x_ptr, sum_ptr, BLOCK: tl.constexpr):
    """Adds its part to what stands there."""
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
    """Says of each program where in the grid it stands."""
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
        tl.store(o_ptr, tl.inline_asm_elementwise("", "=r", [], dtype=tl.int32, is_pure=True, pack=1))


def make_launch(kernel: str, grid: Any, operands: int, outputs: int, **fields: Any) -> KernelLaunch:
    module, _, name = kernel.rpartition(".")
    found: Any = __import__(module, fromlist=[name]) if module else __import__(__name__, fromlist=[name])
    function = getattr(found, name)
    record: dict[str, Any] = {
        "payload": name, "kernel": name, "module": found.__name__, "file": found.__file__, "qualname": name,
        "source": compute_source_sha256(function.fn), "scalars": (), "constants": {}, "zeroed": (), "aliases": {},
        "grid": (*grid, 1, 1)[:3], "operands": operands, "outputs": outputs,
    }  # fmt: skip
    record |= fields
    scalars = {scalar.position for scalar in record["scalars"]}
    pointers = [n for n in range(operands + outputs + len(scalars)) if n not in scalars]
    return KernelLaunch(**({"pointers": tuple(pointers)} | record))


def run(
    kernel: str,
    operands: Any,
    outputs: Any,
    *,
    grid: Any,
    share: dict[int, int] | None = None,
    times: int = 1,
    instruction: str = "call.1",
    runner: dict[str, Any] | None = None,
    **fields: Any,
) -> tuple[list[np.ndarray], list[np.ndarray], tuple[LaunchNumbers, ...]]:
    """Runs the kernel of this module, or the one with that dotted name; output `share[i]` stands in operand i.

    Returns operands and outputs as the kernel left them, and what was seen. `runner` goes to the KernelRunner.
    """
    launch = make_launch(kernel, grid, len(operands), len(outputs), **fields)
    operands = [np.array(operand) for operand in operands]
    outputs = [np.array(output) for output in outputs]
    for operand, output in (share or {}).items():
        outputs[output] = operands[operand]
    with KernelRunner([launch], **runner or {}) as opened:
        for _ in range(times):
            opened.launch(launch.payload, operands, outputs, instruction=instruction)
        return operands, outputs, opened.numbers()
