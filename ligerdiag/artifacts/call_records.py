"""Defines the records that an artifact has in addition to the modules. They say how inputs and outputs are split over
devices, which reads of Refs JAX moved away from the write before them, and at which reads ties can be inserted. A tie is a
trivial operation that puts one read after a kernel.

A device's number is its partition id in the SPMD module.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ligerdiag.codec import (
    FieldError,
    Json,
    encode_record,
    read_record,
    read_str,
)
from ligerdiag.errors import CompileError
from ligerdiag.model.findings import SourceLine

type Range = tuple[int, int]
"""(start, stop) of a shard in one dimension, in elements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """How one array is split over the devices."""

    shape: tuple[int, ...]
    """Shape of the whole array."""
    shards: tuple[tuple[Range, ...], ...]
    """For each device, by partition id, the (start, stop) of its shard in each dimension; (0, size) in a dimension that
    is not split.
    """

    def __post_init__(self) -> None:
        """Raises FieldError if a shard is not a part of the array."""
        for shard in self.shards:
            fits = len(shard) == len(self.shape)
            if not fits or any(not 0 <= a <= b <= n for (a, b), n in zip(shard, self.shape, strict=True)):
                raise FieldError(
                    f"expected ranges inside the shape {list(self.shape)} for `shards` but got {shard!r:.60}"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedArguments:
    """Several arguments of the program that are one and the same array in the caller's memory."""

    groups: tuple[tuple[int, ...], ...]
    """For each such array, the positions of the arguments that are this array, at least two."""
    line: SourceLine | None = None
    """The line that makes the case, or the call of `ligerdiag.check`; None if unknown."""


def compute_placements(
    shapes: Sequence[tuple[int, ...]],
    shardings: Sequence[Any],
    devices: Sequence[Any],
    whole: Sequence[tuple[int, ...]] | None = None,
) -> tuple[Placement, ...]:
    """Returns how each array is split over the devices under its sharding, a `jax.sharding.Sharding`. Raises
    CompileError if XLA does not report how an array is split, for example because its partitioner did not run.

    shapes: the shapes of the arrays. whole: for each array, the sizes of additional last dimensions, which `shapes`
    does not have and which are never split, such as the words of a random key. devices: the devices of the flattened
    mesh, so in the order of their partition ids.
    """
    every = zip(shapes, shardings, whole or [()] * len(shapes), strict=True)
    return tuple(_compute_placement(shape, sharding, devices, rest) for shape, sharding, rest in every)


def _compute_placement(
    shape: tuple[int, ...], sharding: Any, devices: Sequence[Any], whole: tuple[int, ...]
) -> Placement:
    shape = tuple(int(size) for size in shape)
    find_indices = getattr(sharding, "devices_indices_map", None)
    if find_indices is None:
        raise CompileError(f"XLA does not report how an array of shape {list(shape)} is split over the devices")
    indices = find_indices(shape)
    shards = tuple(
        (
            *(_read_slice(part, size) for part, size in zip(indices[device], shape, strict=True)),
            *((0, size) for size in whole),
        )
        for device in devices
    )
    return Placement(shape=(*shape, *whole), shards=shards)


def _read_slice(part: slice, size: int) -> Range:
    start, stop, _ = part.indices(size)
    return start, stop


class RefMove(StrEnum):
    """Says how JAX split a function, so that a read of a Ref no longer follows a write. See `compile.lowering.refs`."""

    OUT_OF_LOOP = "out of loop"
    """JAX makes and reads the Ref before the loop, although the write in the loop should come before the read."""
    SHARED = "shared"
    """JAX makes the Ref once, before the loop, so all iterations share a Ref that each iteration should make anew."""
    DROPPED = "dropped"
    """JAX makes and reads the Ref a second time, for the backward pass, without the write in between."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedRef:
    """A read of a Ref that JAX moved away from a write. In the author's code the read comes after the write; in the
    program that JAX made, it does not.
    """

    kind: RefMove
    made: SourceLine | None
    """The line that makes the Ref. Each of `made`, `read` and `write` is None if the line is unknown."""
    read: SourceLine | None
    write: SourceLine | None
    """The line of the write: a kernel call, or a store."""
    kernel: str
    """Name of the function of the kernel that writes; empty for a store."""
    call: str
    """The name that ligerdiag gives the writing kernel call or store during tracing, see `compile.lowering.call_names`.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class RefStore:
    """A store into a Ref outside of kernels: `ref[...] = value`."""

    tag: int
    """Tag of the operation that computes the stored value; the same in the program as written and in the one that XLA
    gets.
    """
    name: str
    """The name that ligerdiag gives the store during tracing, the same for all stores from one place in the user's
    code.
    """
    source: SourceLine | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TieSite:
    """A read of a kernel's operand after the kernel's call, where a tie can be inserted. A tie is a trivial operation
    that makes the read wait for the kernel.

    Tags, ligerdiag's numbers of operations, are those of the program without ties.
    """

    id: str
    """`<call>.<operand>:<reader>.<reader_operand>`; if `through` has tags of function calls, they come first, as in
    `9/40.0:12.1`.
    """
    kernel: str
    """Name of the kernel's function; the target of the custom call if the kernel has no known name."""
    call: int
    """Tag of the kernel call, a custom call."""
    operand: int
    """Number of the kernel call's operand that is read, from 0."""
    through: tuple[int, ...]
    """Tags of the function calls that lead from the reader's function to the kernel's; empty if both are in one
    function.
    """
    reader: int
    """Tag of the operation that reads the value."""
    reader_operand: int
    """Number of the operand, from 0, through which the reading operation reads the value."""
    opcode: str
    """StableHLO name of the reading operation."""
    shape: str
    """Shape of the value that is read, such as `f32[4,32]`."""
    source: SourceLine
    """The innermost frame of the reading operation outside of installed packages; file "" if there is none."""
    untieable: str = ""
    """The reason why no tie `value + s - s` can be inserted here; empty if one can. It is the reason in `unreachable`, or
    that the kernel has no floating-point output to sum, that nothing can be added to a value of this type, or that the
    reader is a call of a function that passes the value to a kernel or returns it.
    """
    unreachable: str = ""
    """The reason why the kernel's results are not available here, such as that only the kernel is in a loop; empty if
    they are. It rules out a tie, a barrier, and an output that declares the write.
    """
    no_barrier: str = ""
    """The reason, apart from `unreachable`, why no barrier can be inserted here, such as that the kernel has no results;
    empty if there is none.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelParameter:
    """A parameter of a kernel in PTX: an array, a scalar, or a structure that the library adds."""

    buffer: int | None
    """Number of the call's buffer to which the addresses in the parameter point, operands before outputs; None for a
    parameter without addresses.
    """
    addresses: tuple[int, ...] = ()
    """Offsets, in bytes, of the 8-byte addresses in the parameter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryKernel:
    """A kernel of a library, with the code that the compile worker got from the library. The custom call that runs it
    does not contain the code.
    """

    target: str
    """The custom call's target, which belongs to this kernel alone."""
    kernel: str
    """Name of the kernel's function."""
    entry: str
    """Name of the kernel's function in the PTX."""
    ptx: str
    parameters: tuple[KernelParameter, ...]
    """The parameters of the function `entry`, in order."""
    operands: int
    outputs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Readers:
    """The reads of kernels' operands that come after the kernels' calls, in the program order of one program."""

    found: tuple[TieSite, ...] = ()
    trouble: str = ""
    """The reason why the list of reads is incomplete; empty if it is complete."""


def render_readers(readers: Readers) -> str:
    return json.dumps({"trouble": readers.trouble, "readers": encode_record(readers.found)}, indent=1) + "\n"


def parse_readers(fields: Json) -> Readers:
    """Parses the JSON object of an artifact's file `readers.json`. Raises FieldError if a field is missing or has
    another type.
    """
    return Readers(found=read_record(tuple[TieSite, ...], fields, "readers"), trouble=read_str(fields, "trouble"))
