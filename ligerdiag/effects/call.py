"""The effects of one custom call, for any target: the entry point of this room."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ligerdiag.effects.access import CallEffects, create_unknown_effects
from ligerdiag.effects.custom_calls import compute_listed_effects
from ligerdiag.effects.triton_payload import KernelCall, parse_pallas_call, parse_triton_call, parse_triton_ffi_call
from ligerdiag.errors import ArtifactError

_KERNEL_PARSERS: dict[str, Callable[[bytes], tuple[KernelCall, ...]]] = {
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
    """Returns whether calls to `target` carry a kernel whose IR must be parsed."""
    return target in _KERNEL_PARSERS


def compute_call_effects(
    *, target: str, backend_config: bytes, operands: int, outputs: int, sizes: Sequence[int | None] = ()
) -> CallEffects:
    """Returns the effects of the call on each buffer; UNKNOWN, with a reason, if its payload cannot be read.

    sizes: see `CustomCall`. Without them it is not known whether a kernel writes all of a buffer.

    For a target that carries a kernel this imports Triton and gives its MLIR parser the payload's bytes: a hostile
    payload can kill the process. `isolated` does the same in another one.
    """
    parse = _KERNEL_PARSERS.get(target)
    if parse is None:
        return compute_listed_effects(target=target, backend_config=backend_config, operands=operands, outputs=outputs)
    try:
        calls = parse(backend_config)
    except ArtifactError as error:
        return create_unknown_effects(kernel=target, operands=operands, outputs=outputs, reason=str(error))
    from ligerdiag.effects.kernel_effects import compute_kernel_effects

    return compute_kernel_effects(calls, operands=operands, outputs=outputs, sizes=sizes)
