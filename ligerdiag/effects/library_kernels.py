"""Computes the effects of custom calls whose kernels are in no payload, from the PTX of the library that runs them.

NVIDIA Warp registers a target for each kernel, and the call's payload is a number. ligerdiag follows this PTX in the same
way as the PTX in a payload without IR (see `ptx`). The call may read every buffer, and it may write the buffers that the PTX
may write. The effects are UNKNOWN if the PTX is too long, or if its pointers take too many steps to follow.
"""

from collections.abc import Sequence
from dataclasses import replace

from ligerdiag.artifacts.call_records import LibraryKernel
from ligerdiag.effects.access import Access, CallEffects, compute_plain_use, create_unknown_effects
from ligerdiag.effects.ptx import find_ptx_writes

MOST_PTX = 4 << 20
"""The most characters of PTX that are followed. The calling process follows it without a time limit; PTX of this length
takes some seconds, and is a hundred times as long as a kernel of thousands of instructions.
"""


def find_library_kernel(kernels: Sequence[LibraryKernel], target: str) -> LibraryKernel | None:
    """Returns the kernel that a custom call to `target` runs; None if `kernels` has none for this target."""
    return next((one for one in kernels if one.target == target), None)


def compute_library_effects(kernel: LibraryKernel, *, operands: int, outputs: int) -> CallEffects:
    """Returns the effects of a custom call that runs a library's kernel. They are UNKNOWN, with a reason, if its PTX
    cannot be followed.
    """
    total = operands + outputs
    buffers = [one.buffer for one in kernel.parameters]
    if (operands, outputs) != (kernel.operands, kernel.outputs) or any(not 0 <= (one or 0) < total for one in buffers):
        reason = f"`{kernel.kernel}` is a kernel for {kernel.operands} operands and {kernel.outputs} outputs"
        reason = f"{reason}, but the call has {operands} operands and {outputs} outputs"
        return _create_unknown(kernel, operands, outputs, reason)
    if len(kernel.ptx) > MOST_PTX:
        reason = f"the PTX of `{kernel.kernel}` has more than {MOST_PTX} characters"
        return _create_unknown(kernel, operands, outputs, reason)
    found = find_ptx_writes(
        kernel.ptx,
        kernel.entry,
        [one is not None for one in buffers],
        addresses=[one.addresses for one in kernel.parameters],
    )
    if not found.reason and any(number >= len(buffers) for number in found.parameters):
        found = replace(found, reason="it writes through a parameter that the library does not name")
    if found.reason:
        return _create_unknown(
            kernel, operands, outputs, f"the PTX of `{kernel.kernel}` cannot be followed: {found.reason}"
        )
    accesses = [Access.NONE] * total
    for number, buffer in enumerate(buffers):
        if buffer is not None:
            accesses[buffer] = Access.READ_WRITE if number in found.parameters else Access.READ
    uses = [compute_plain_use(access, f"`{kernel.kernel}` has PTX, but no IR that is followed") for access in accesses]
    return CallEffects(
        kernel=kernel.kernel,
        operands=tuple(accesses[:operands]),
        outputs=tuple(accesses[operands:]),
        operand_uses=tuple(uses[:operands]),
        output_uses=tuple(uses[operands:]),
    )


def _create_unknown(kernel: LibraryKernel, operands: int, outputs: int, reason: str) -> CallEffects:
    return create_unknown_effects(
        kernel=kernel.kernel,
        operands=operands,
        outputs=outputs,
        reason=f"{reason}; declare the kernel's writes under [tool.ligerdiag.effects]",
    )
