"""Computes the effects of one custom call, whatever its target.

A *configuration* is one way in which the launcher may run a kernel, with its own block sizes and grid. An autotuned call
has several.

The effects of a call that carries a kernel follow from the kernel's IR. For other calls, `ligerdiag.hlo.custom_calls`
lists the targets that only read their operands and write their outputs. The effects of a call to an unlisted target are
UNKNOWN, unless the user declares them (see `declared`).
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ligerdiag.effects.access import Access, CallEffects, create_unknown_effects
from ligerdiag.effects.mosaic.mosaic_effects import make_unique_name
from ligerdiag.effects.payload import (
    LaunchConfiguration,
    NoIrError,
    find_cute_names,
    parse_pallas_call,
    parse_triton_call,
    parse_triton_ffi_call,
)
from ligerdiag.effects.tile_ir import compute_tile_effects
from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.custom_calls import CallTrait, find_traits, has_trait, load_notes
from ligerdiag.hlo.module import HloInstruction

# Matches the name of a kernel's host function as jax/experimental/mosaic/gpu/core.py makes it; in MLIR's bytecode, a
# string ends with a zero. `stable_mosaic_gpu` is no kernel, but a dialect that every module names.
_MOSAIC_NAME = re.compile(rb"(?:\x00|\\00|^)(?!stable_)([A-Za-z_][\w.$-]*?)_mosaic_gpu(?=\x00|\\00)", re.ASCII)


def compute_listed_effects(*, target: str, backend_config: bytes, operands: int, outputs: int) -> CallEffects:
    """Returns the effects of a call to a target without a kernel, by the table of known targets. The effects of a target
    that the table does not list are UNKNOWN.
    """
    if has_trait(target, CallTrait.READS_ONLY):
        return CallEffects(
            kernel=target,
            operands=(Access.READ,) * operands,
            outputs=(Access.WRITE,) * outputs,
        )
    kernel = ""
    if has_trait(target, CallTrait.UNREAD_MOSAIC):
        kernel = _find_mosaic_name(backend_config)
    elif has_trait(target, CallTrait.CUTE):
        kernel = find_cute_names(backend_config)
    note = load_notes().get(target)
    what = f"`{target}`: {note}" if note else f"the effects of custom-call target `{target}` are not known"
    return create_unknown_effects(
        kernel=kernel or target,
        operands=operands,
        outputs=outputs,
        reason=f"{what}; declare its writes under [tool.ligerdiag.effects]",
    )


def _find_mosaic_name(backend_config: bytes) -> str:
    """Returns the name of the Pallas kernel in a Mosaic GPU module; empty if it is unknown."""
    match = _MOSAIC_NAME.search(backend_config)
    return make_unique_name(match[1].decode("ascii"), backend_config) if match else ""


_KERNEL_PARSERS: Mapping[CallTrait, Callable[[bytes], tuple[LaunchConfiguration, ...]]] = {
    CallTrait.JAX_TRITON: parse_triton_call,
    CallTrait.JAX_TRITON_FFI: parse_triton_ffi_call,
    CallTrait.PALLAS_TRITON: parse_pallas_call,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomCall:
    """The parts of a custom-call instruction that determine its effects."""

    target: str
    backend_config: bytes
    operands: int
    """Number of operands of the call."""
    outputs: int
    """Number of outputs of the call: the leaves if the result is a tuple, one if it is an array."""
    sizes: tuple[int | None, ...] = ()
    """Bytes of each operand, then of each output, None where unknown; () if all are unknown."""


def carries_kernel(target: str) -> bool:
    """Returns whether the backend config of a call to `target` contains a kernel in Triton IR."""
    return has_trait(target, CallTrait.CARRIES_TRITON)


def find_aliased(call: HloInstruction) -> frozenset[int] | None:
    """Returns the numbers of the operands that an output of a library call aliases. The call overwrites only these operands.

    Returns None if the call may also write operands that no output aliases. It may if it has side effects, if it passes the
    operands' own buffers to code that ligerdiag does not read, or if it contains a kernel.
    """
    target = call.proto.custom_call_target
    brings_code = needs_parser(target) or has_trait(target, CallTrait.UNREAD_KERNEL | CallTrait.TILE_IR)
    return None if brings_code or call.proto.custom_call_has_side_effect else frozenset(call.operand_output_aliases)


def explain_untrusted(call: HloInstruction) -> str:
    """Returns why a call may also write operands that no output aliases; '' if it writes only aliased operands."""
    target = call.proto.custom_call_target
    if needs_parser(target) or has_trait(target, CallTrait.TILE_IR):
        return "the call carries a kernel whose code could not be analysed"
    if has_trait(target, CallTrait.UNREAD_KERNEL):
        return "the call passes the operands' own buffers to code that ligerdiag does not read"
    return "the call has side effects" if call.proto.custom_call_has_side_effect else ""


def needs_parser(target: str) -> bool:
    """Returns whether only a parser in C++ can read the kernel of a call to `target`."""
    return has_trait(target, CallTrait.CARRIES_TRITON | CallTrait.MOSAIC)


def parse_configurations(target: str, backend_config: bytes) -> tuple[LaunchConfiguration, ...]:
    """Returns the configurations in which a call to `target` may launch its kernel; () if the call contains no kernel.

    Raises ArtifactError if the backend config cannot be read.
    """
    parse = _KERNEL_PARSERS.get(find_traits(target) & CallTrait.CARRIES_TRITON)
    return () if parse is None else parse(backend_config)


def compute_call_effects(
    *, target: str, backend_config: bytes, operands: int, outputs: int, sizes: Sequence[int | None] = ()
) -> CallEffects:
    """Returns the effects of a custom call on each of its buffers. They are UNKNOWN, with a reason, if its payload cannot be
    read.

    sizes: see `CustomCall`. Without sizes, it is unknown whether a kernel writes all of a buffer.

    The MLIR parsers of Triton and JAX read the payload: this function imports Triton for Triton IR, and JAX for a Mosaic GPU
    kernel. A hostile payload can kill the process, so `isolated` calls this function in a process of its own.
    """
    if has_trait(target, CallTrait.MOSAIC):
        return _compute_mosaic_effects(target, backend_config, operands, outputs)
    if has_trait(target, CallTrait.TILE_IR):
        return compute_tile_effects(target=target, backend_config=backend_config, operands=operands, outputs=outputs)
    if not carries_kernel(target):
        return compute_listed_effects(target=target, backend_config=backend_config, operands=operands, outputs=outputs)
    try:
        calls = parse_configurations(target, backend_config)
    except ArtifactError as error:
        kernel = (error.kernel if isinstance(error, NoIrError) else "") or target
        return create_unknown_effects(kernel=kernel, operands=operands, outputs=outputs, reason=str(error))
    from ligerdiag.effects.kernel_effects import compute_kernel_effects

    return compute_kernel_effects(calls, operands=operands, outputs=outputs, sizes=sizes)


def _compute_mosaic_effects(target: str, backend_config: bytes, operands: int, outputs: int) -> CallEffects:
    from ligerdiag.effects.mosaic.mosaic_effects import compute_mosaic_effects

    effects = compute_mosaic_effects(target=target, backend_config=backend_config, operands=operands, outputs=outputs)
    if effects.kernel != target:
        return effects
    return replace(effects, kernel=_find_mosaic_name(backend_config) or target)
