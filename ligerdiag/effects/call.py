"""Computes the effects of one custom call, whatever its target.

Of calls that carry no kernel to read, `known_targets.toml` lists those that only read their operands and write their
outputs. A target that is not in it is UNKNOWN, unless the user declares it (`declared`). There are no targets of NCCL:
XLA's collectives are instructions of their own.
"""

import re
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from ligerdiag.effects.access import Access, CallEffects, create_unknown_effects
from ligerdiag.effects.mosaic.module import tell_apart
from ligerdiag.effects.payload import (
    LaunchConfiguration,
    NoIrError,
    parse_pallas_call,
    parse_triton_call,
    parse_triton_ffi_call,
)
from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.module import HloInstruction

KNOWN_TARGETS = Path(__file__).with_name("known_targets.toml")


@cache
def load_known_targets() -> re.Pattern[str]:
    """Returns what matches the targets of libraries whose calls only read their operands and write their outputs."""
    groups = tomllib.loads(KNOWN_TARGETS.read_text(encoding="utf-8"))["group"]
    exact = [re.escape(target) for group in groups for target in group.get("targets", ())]
    return re.compile(
        "|".join([*exact, *(pattern for group in groups for pattern in group.get("patterns", ()))]), re.ASCII
    )


_BUFFER_CALLBACK = "it hands the operands' own buffers to a Python function"
_MOSAIC = "a Mosaic GPU kernel, whose IR is not followed"

_EXPLAINED = {
    "mosaic_gpu": _MOSAIC,
    "__gpu$xla.gpu.ptx": "a kernel in PTX, which is not followed",
    # jax/_src/buffer_callback.py, jaxlib/gpu/py_client_gpu.cc
    "xla_buffer_python_gpu_callback": _BUFFER_CALLBACK,
    "xla_buffer_python_gpu_callback_cmd_buffer": _BUFFER_CALLBACK,
    "xla_buffer_python_cpu_callback": _BUFFER_CALLBACK,
}
"""Notes on targets whose effects depend on their users."""

# jax/experimental/mosaic/gpu/core.py names the kernel's host function so; in MLIR's bytecode strings end with a zero.
# `stable_mosaic_gpu` is the dialect of every module.
_MOSAIC_NAME = re.compile(rb"(?:\x00|\\00|^)(?!stable_)([A-Za-z_][\w.$-]*?)_mosaic_gpu(?=\x00|\\00)", re.ASCII)
_FOLLOWED_MOSAIC = "mosaic_gpu_v2"


def compute_listed_effects(*, target: str, backend_config: bytes, operands: int, outputs: int) -> CallEffects:
    """Effects of a call to a known target; UNKNOWN for any other."""
    if load_known_targets().fullmatch(target):
        return CallEffects(
            kernel=target,
            operands=(Access.READ,) * operands,
            outputs=(Access.WRITE,) * outputs,
        )
    kernel = _find_mosaic_name(backend_config) if _EXPLAINED.get(target) is _MOSAIC else ""
    what = (
        f"`{target}`: {_EXPLAINED[target]}"
        if target in _EXPLAINED
        else f"no table entry for custom-call target `{target}`"
    )
    return create_unknown_effects(
        kernel=kernel or target,
        operands=operands,
        outputs=outputs,
        reason=f"{what}; say what it writes under [tool.ligerdiag.effects]",
    )


def _find_mosaic_name(backend_config: bytes) -> str:
    """Returns the name of the Pallas kernel inside of a Mosaic GPU module; empty if it is unknown."""
    match = _MOSAIC_NAME.search(backend_config)
    return tell_apart(match[1].decode("ascii"), backend_config) if match else ""


_KERNEL_PARSERS: dict[str, Callable[[bytes], tuple[LaunchConfiguration, ...]]] = {
    "triton_kernel_call": parse_triton_call,
    "triton_kernel_call_ffi": parse_triton_ffi_call,
    "__gpu$xla.gpu.triton": parse_pallas_call,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomCall:
    """The parts of a custom-call instruction that its effects depend on."""

    target: str
    backend_config: bytes
    operands: int
    """Number of its operands."""
    outputs: int
    """Number of its outputs: the leaves of a tuple, one for an array."""
    sizes: tuple[int | None, ...] = ()
    """Bytes of each operand, then of each output, None where not known; () where none are."""


def carries_kernel(target: str) -> bool:
    """Returns whether calls to `target` carry a kernel in Triton IR."""
    return target in _KERNEL_PARSERS


def find_aliased(call: HloInstruction) -> frozenset[int] | None:
    """Returns the operands that the call of a library's function declares to overwrite: those that an output aliases.

    None where that says nothing of the others: the call has side effects, hands out the operands' own buffers, or brings
    a kernel, whose code tells.
    """
    target = call.proto.custom_call_target
    brings_code = carries_kernel(target) or target in _EXPLAINED or target == _FOLLOWED_MOSAIC
    return None if brings_code or call.proto.custom_call_has_side_effect else frozenset(call.operand_output_aliases)


def explain_untrusted(call: HloInstruction) -> str:
    """Returns why the aliases of a call do not say all that it overwrites, see `find_aliased`; empty where they do."""
    target = call.proto.custom_call_target
    if carries_kernel(target) or target == _FOLLOWED_MOSAIC:
        return "the call brings a kernel whose code could not be followed"
    if target in _EXPLAINED:
        return "the call hands out the operands' own buffers"
    return "the call has side effects" if call.proto.custom_call_has_side_effect else ""


def needs_parser(target: str) -> bool:
    """Returns whether the effects of calls to `target` come from IR that a parser in C++ reads."""
    return carries_kernel(target) or target == _FOLLOWED_MOSAIC


def parse_configurations(target: str, backend_config: bytes) -> tuple[LaunchConfiguration, ...]:
    """Returns the launches that a call to `target` may do, () where it carries no kernel; raises ArtifactError."""
    parse = _KERNEL_PARSERS.get(target)
    return () if parse is None else parse(backend_config)


def compute_call_effects(
    *, target: str, backend_config: bytes, operands: int, outputs: int, sizes: Sequence[int | None] = ()
) -> CallEffects:
    """Returns the effects of the call on each buffer; UNKNOWN, with a reason, if its payload cannot be read.

    sizes: see `CustomCall`. Without them it is not known whether a kernel writes all of a buffer.

    For a target that carries a kernel this imports Triton, or JAX for a Mosaic GPU kernel, and gives its MLIR parser
    the payload's bytes: a hostile payload can kill the process. `isolated` does the same in another one.
    """
    if target == _FOLLOWED_MOSAIC:
        return _compute_mosaic_effects(backend_config, operands, outputs)
    if not carries_kernel(target):
        return compute_listed_effects(target=target, backend_config=backend_config, operands=operands, outputs=outputs)
    try:
        calls = parse_configurations(target, backend_config)
    except ArtifactError as error:
        kernel = (error.kernel if isinstance(error, NoIrError) else "") or target
        return create_unknown_effects(kernel=kernel, operands=operands, outputs=outputs, reason=str(error))
    from ligerdiag.effects.kernel_effects import compute_kernel_effects

    return compute_kernel_effects(calls, operands=operands, outputs=outputs, sizes=sizes)


def _compute_mosaic_effects(backend_config: bytes, operands: int, outputs: int) -> CallEffects:
    from ligerdiag.effects.mosaic.module import compute_mosaic_effects

    effects = compute_mosaic_effects(
        target=_FOLLOWED_MOSAIC, backend_config=backend_config, operands=operands, outputs=outputs
    )
    if effects.kernel != _FOLLOWED_MOSAIC:
        return effects
    return replace(effects, kernel=_find_mosaic_name(backend_config) or _FOLLOWED_MOSAIC)
