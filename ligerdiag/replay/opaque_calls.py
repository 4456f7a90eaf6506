"""Describes the custom calls that a replay runs as opaque functions, each with the buffers that it reads and writes. An
opaque function is a stand-in that reads and writes the same buffers as the call (see `opaque_runs.opaque`).
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class OpaqueUse:
    """Says how an opaque function uses one of its buffers. An opaque function is a stand-in for a custom call, with the
    same buffers.
    """

    reads: bool = False
    """Whether this buffer's contents from before the call may affect a value that the call writes to this or another
    buffer.
    """
    writes: bool = False
    blends: bool = False
    """Whether an element that the call may write can keep its old value, or get a new value that depends on the old
    one.
    """
    start: int = 0
    """The first element that the call may write."""
    stop: int | None = None
    """The element after the last one that the call may write; None for the end of the buffer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpaqueCall:
    """A custom call that runs as an opaque function, a stand-in that reads and writes the same buffers."""

    id: int
    """Id of the instruction in its module."""
    function: str
    """Name of the function: calls with equal names compute equal values from equal operands, in both modules."""
    uses: tuple[OpaqueUse, ...]
    """The uses of the call's buffers: its operands first, then its outputs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpaqueCalls:
    """The custom calls of a program and of its schedule that run as opaque functions. An opaque function is a stand-in
    that reads and writes the same buffers as the call.
    """

    program: tuple[OpaqueCall, ...] = ()
    optimized: tuple[OpaqueCall, ...] = ()
    kernels: tuple[str, ...] = ()
    """Names of the calls' kernels or targets, each once."""
    not_covered: str = ""
    """Why calls cannot run as opaque functions; empty if they can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchedCalls:
    """The custom calls of two programs that run as opaque functions, paired. An opaque function is a stand-in that
    reads and writes the same buffers as the call. The calls of a pair have the same function.
    """

    first: tuple[OpaqueCall, ...] = ()
    changed: tuple[OpaqueCall, ...] = ()
    kernels: tuple[str, ...] = ()
    """Names of the calls' kernels or targets, each once."""
    has_same_code: bool = False
    """Whether each call has the same code in both programs. Only its declaration may then differ."""
