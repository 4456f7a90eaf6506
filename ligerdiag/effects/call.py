"""Computes the effects of one custom call, whatever its target.

A call that carries a kernel does what the kernel's IR says. For any other, `ligerdiag.hlo.custom_calls` lists the
targets that only read their operands and write their outputs. A target that it does not list is UNKNOWN, unless the
user declares it (`declared`).
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ligerdiag.effects.access import Access, CallEffects, create_unknown_effects
from ligerdiag.effects.mosaic.mosaic_effects import make_unique_name
from ligerdiag.effects.payload import (
    LaunchConfiguration,
    NoIrError,
    parse_pallas_call,
    parse_triton_call,
    parse_triton_ffi_call,
)
from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.custom_calls import CallTrait, find_traits, has_trait, load_notes
from ligerdiag.hlo.module import HloInstruction

# jax/experimental/mosaic/gpu/core.py names the kernel's host function so; in MLIR's bytecode strings end with a zero.
# `stable_mosaic_gpu` is the dialect of every module.
_MOSAIC_NAME = re.compile(rb"(?:\x00|\\00|^)(?!stable_)([A-Za-z_][\w.$-]*?)_mosaic_gpu(?=\x00|\\00)", re.ASCII)


def compute_listed_effects(*, target: str, backend_config: bytes, operands: int, outputs: int) -> CallEffects:
    """Returns the effects of a call to a known target; UNKNOWN for any other."""
    if has_trait(target, CallTrait.READS_ONLY):
        return CallEffects(
            kernel=target,
            operands=(Access.READ,) * operands,
            outputs=(Access.WRITE,) * outputs,
        )
    kernel = _find_mosaic_name(backend_config) if has_trait(target, CallTrait.UNREAD_MOSAIC) else ""
    note = load_notes().get(target)
    what = f"`{target}`: {note}" if note else f"the effects of custom-call target `{target}` are not known"
    return create_unknown_effects(
        kernel=kernel or target,
        operands=operands,
        outputs=outputs,
        reason=f"{what}; say what it writes under [tool.ligerdiag.effects]",
    )


def _find_mosaic_name(backend_config: bytes) -> str:
    """Returns the name of the Pallas kernel inside of a Mosaic GPU module; empty if it is unknown."""
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
    """Number of its operands."""
    outputs: int
    """Number of its outputs: the leaves of a tuple, one for an array."""
    sizes: tuple[int | None, ...] = ()
    """Bytes of each operand, then of each output, None if unknown; () if all are unknown."""


def carries_kernel(target: str) -> bool:
    """Returns whether calls to `target` carry a kernel in Triton IR."""
    return has_trait(target, CallTrait.CARRIES_TRITON)


def find_aliased(call: HloInstruction) -> frozenset[int] | None:
    """Returns the operands that a library call declares to overwrite: those that an output aliases.

    Returns None if it may write other operands too: it has side effects, exposes the operands' own buffers, or carries
    a kernel, whose code decides.
    """
    target = call.proto.custom_call_target
    brings_code = needs_parser(target) or has_trait(target, CallTrait.UNREAD_KERNEL)
    return None if brings_code or call.proto.custom_call_has_side_effect else frozenset(call.operand_output_aliases)


def explain_untrusted(call: HloInstruction) -> str:
    """Returns why a call may write operands that no output aliases, see `find_aliased`; empty if it may not."""
    target = call.proto.custom_call_target
    if needs_parser(target):
        return "the call carries a kernel whose code could not be analysed"
    if has_trait(target, CallTrait.UNREAD_KERNEL):
        return "the call passes the operands' own buffers to code that ligerdiag does not read"
    return "the call has side effects" if call.proto.custom_call_has_side_effect else ""


def needs_parser(target: str) -> bool:
    """Returns whether the effects of calls to `target` come from IR that a parser in C++ reads."""
    return has_trait(target, CallTrait.CARRIES_TRITON | CallTrait.MOSAIC)


def parse_configurations(target: str, backend_config: bytes) -> tuple[LaunchConfiguration, ...]:
    """Returns the possible launches of a call to `target`, () if it carries no kernel; raises ArtifactError."""
    parse = _KERNEL_PARSERS.get(find_traits(target) & CallTrait.CARRIES_TRITON)
    return () if parse is None else parse(backend_config)


def compute_call_effects(
    *, target: str, backend_config: bytes, operands: int, outputs: int, sizes: Sequence[int | None] = ()
) -> CallEffects:
    """Returns the effects of the call on each buffer; UNKNOWN, with a reason, if its payload cannot be read.

    sizes: see `CustomCall`. Without them, whether a kernel writes all of a buffer is unknown.

    For a target that carries a kernel this imports Triton, or JAX for a Mosaic GPU kernel, and gives its MLIR parser
    the payload's bytes: a hostile payload can kill the process. `isolated` runs this in another process.
    """
    if has_trait(target, CallTrait.MOSAIC):
        return _compute_mosaic_effects(target, backend_config, operands, outputs)
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
