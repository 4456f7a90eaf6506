"""Defines the options for evaluating a launch, and the observations that an evaluation returns in addition to the
numbers that the kernel wrote.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ligerdiag.model.findings import SourceLine
from ligerdiag.replay.ops.scope import Array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Descriptor:
    """A tensor descriptor that the host makes and passes as an argument. The kernel's parameter has a type with the
    shape of a block.
    """

    array: Array
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """Distance, in elements, between neighbours along each axis of the tensor."""


type Scalar = int | float | bool | np.generic[Any]
type Argument = Array | Scalar | Descriptor | None
"""The value that a launch passes to one argument of a kernel; None is a null pointer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GridOptions:
    """Says how to evaluate a launch: which programs run, in which order, and what is recorded."""

    order: Literal["grid", "reverse"] = "grid"
    """The order in which programs run: the order of the grid, in which x changes fastest, or the reverse."""
    programs: Sequence[int] | None = None
    """Linear numbers (x + width * (y + height * z)) of the programs that run; None for all."""
    batch_bytes: int = 8 << 20
    """Approximate number of bytes of the largest value in a batch, for all programs of the batch together. Evaluation
    is fast if the value fits into a core's cache.
    """
    records_meetings: bool = True
    """Whether to look for bytes that several programs touch; if not, results are wrong for programs of one batch that
    touch the same bytes.
    """
    most_rounds: int = 1 << 24
    """The most iterations of one loop; a longer loop is not covered."""
    together: bool = False
    """Whether the programs of a batch run concurrently, operation by operation, even if they touch the same bytes;
    their accesses then occur in one possible order.
    """
    first_stays: bool = False
    """If several programs store to the same bytes in one operation, whether the first program's value stays rather than
    the last program's. If true, the stores land in another order than the operations before them; and at a branch, the
    programs for which the condition is false run before the others, instead of after them.
    """
    tracked: frozenset[int] = frozenset()
    """Numbers of the arguments whose reads of unwritten bytes are recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """Bytes that one program of a launch writes and another program reads or writes."""

    argument: int
    """Number of the argument through which the writer wrote the bytes."""
    other_argument: int
    """Number of the argument through which the other program read or wrote the bytes."""
    writer: int
    other: int
    """Linear number of the other program in the grid."""
    other_writes: bool
    first_byte: int
    """Offset of the first of these bytes from the start of `argument`."""
    bytes: int
    place: SourceLine | None
    """Source line of the write."""
    other_place: SourceLine | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UnwrittenBytes:
    """Bytes of an argument that were read before any program had written them. The fields also describe the first such
    read.
    """

    argument: int
    mask: Array
    """bool[bytes of the argument]: which bytes were read before they were written."""
    is_atomic: bool
    """Whether the first of these reads is part of an atomic update. `program`, `first_byte` and `place` describe the
    first read, too.
    """
    program: int
    first_byte: int
    place: SourceLine | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutOfBounds:
    """Accesses of one operation of the kernel to bytes outside of an argument. Such loads give zero, and such stores
    are dropped.
    """

    argument: int | None
    """Number of the argument; None if the pointer belongs to no argument."""
    kind: Literal["load", "store", "atomic"]
    first_byte: int
    """Offset of the first such access from the start of the argument; may be negative."""
    width: int
    """Bytes of an element."""
    count: int
    """Number of elements outside the argument, over all programs."""
    program: int
    """Number, in the grid, of the first program with such an access."""
    place: SourceLine | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GridOutcome:
    """The observations made while a launch was evaluated."""

    used_atomics: bool = False
    meeting: tuple[Meeting, ...] | None = None
    """Examples of bytes that one program writes and another one accesses, except bytes that both access atomically;
    None if there are no such bytes.
    """
    ordered_atomics: tuple[Meeting, ...] = ()
    """Examples of bytes on which two programs run atomic operations that depend on their order (see
    `find_atomic_order`). Another order may change the results by more than rounding.
    """
    unwritten_reads: tuple[UnwrittenBytes, ...] = ()
    """Reads of unwritten bytes, one entry per tracked argument that has any."""
    meetings_known: bool = True
    """Whether the launch was searched completely for bytes that several programs touch. It is not if the options forbid
    the search, or if programs access more than `MOST_RUNS` ranges of bytes (see `meetings`); `meeting` and
    `ordered_atomics` may then lack some, or all, of them.
    """
    out_of_bounds: tuple[OutOfBounds, ...] = ()
    waited: bool = False
    """Whether a program seemed to wait for another one of its batch, as at a lock."""
    sequential_programs: int = 0
    """Number of programs that ran one by one because programs of their batch touched the same bytes or seemed to wait
    for each other.
    """
