"""Options of a launch, and observations of it beyond the numbers that it wrote."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ligerdiag.model.findings import SourceLine
from ligerdiag.replay.ops.scope import Array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Descriptor:
    """An argument that is a tensor descriptor made by the host; the function's type has the block's shape."""

    array: Array
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """In elements."""


type Scalar = int | float | bool | np.generic[Any]
type Argument = Array | Scalar | Descriptor | None
"""None is a null pointer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GridOptions:
    """How a launch is evaluated."""

    order: Literal["grid", "reverse"] = "grid"
    """Order of the programs; in `grid`, x changes fastest."""
    programs: Sequence[int] | None = None
    """Linear numbers (x + width * (y + height * z)) of the programs that run; all where None."""
    batch_bytes: int = 8 << 20
    """About the bytes of the largest value of all programs of a batch; fast if they fit into a core's cache."""
    records_meetings: bool = True
    """Whether to look for bytes that several programs touch; if not, results are wrong for programs that meet within a
    batch."""
    most_rounds: int = 1 << 24
    """The most rounds of one loop."""
    together: bool = False
    """Whether the programs of a batch run concurrently, operation by operation, even where they meet: one possible
    order of their accesses."""
    first_stays: bool = False
    """Whether the first program's value stays if programs store to the same bytes in one operation: the stores land in
    another order than the operations before them. Programs whose condition does not hold run first."""
    tracked: frozenset[int] = frozenset()
    """Numbers of the arguments whose reads of unwritten bytes are recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """Bytes that one program writes and another accesses."""

    argument: int
    """Number of the argument through which the writer wrote."""
    other_argument: int
    """Number of the argument through which the other program read or wrote."""
    writer: int
    other: int
    """Linear number of the other program."""
    other_writes: bool
    first_byte: int
    """Offset from the start of `argument`."""
    bytes: int
    place: SourceLine | None
    """Line of the write."""
    other_place: SourceLine | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UnwrittenBytes:
    """Bytes of an argument that were read before any program had written them."""

    argument: int
    mask: Array
    """bool[bytes]"""
    is_atomic: bool
    """Whether the first read is that of an atomic update. The fields below describe the first read, too."""
    program: int
    first_byte: int
    place: SourceLine | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutOfBounds:
    """Accesses past an argument's bytes by one operation of the kernel: the loads give zero, the stores are dropped."""

    argument: int | None
    """None if the pointer belongs to no argument."""
    kind: Literal["load", "store", "atomic"]
    first_byte: int
    """Offset of the first such access from the argument's start; may be negative."""
    width: int
    """Bytes of an element."""
    count: int
    """Number of elements, over all programs."""
    program: int
    """The first program with such an access."""
    place: SourceLine | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GridOutcome:
    """The observations of a launch."""

    used_atomics: bool = False
    meeting: tuple[Meeting, ...] | None = None
    """Examples of meetings, except of two atomics; None if no programs meet."""
    ordered_atomics: tuple[Meeting, ...] = ()
    """Examples of programs whose order-dependent atomics (see `find_atomic_order`) meet: their order may show in more
    than rounding."""
    unwritten_reads: tuple[UnwrittenBytes, ...] = ()
    """Reads of unwritten bytes of the tracked arguments."""
    meetings_known: bool = True
    """Whether the search for meetings across batches is complete."""
    out_of_bounds: tuple[OutOfBounds, ...] = ()
    waited: bool = False
    """Whether a program seemed to wait for another one of its batch, as at a lock."""
    sequential_programs: int = 0
    """Number of programs that ran one by one because they met."""
