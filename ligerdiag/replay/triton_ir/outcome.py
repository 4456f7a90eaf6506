"""Options of a launch, and what was seen of it beyond the numbers that it wrote."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ligerdiag.model.findings import SourceLine
from ligerdiag.replay.ops.scope import Array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Descriptor:
    """An argument that is a tensor descriptor made by the host; the block's shape stands in the function's type."""

    array: Array
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """In elements."""
    padding_nan: bool = False


type Scalar = int | float | bool | np.generic[Any]
type Argument = Array | Scalar | Descriptor | None
"""None is a null pointer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GridOptions:
    """How a launch is evaluated."""

    order: Literal["grid", "reverse"] = "grid"
    """Of programs; x changes fastest."""
    programs: Sequence[int] | None = None
    """Linear numbers (x + width * (y + height * z)) of the programs that run; all where None."""
    batch_bytes: int = 8 << 20
    """About so many bytes for the largest values of the programs of a batch; small enough for a core's cache is
    fast."""
    records_meetings: bool = True
    """Whether bytes that several programs touch are looked for; where not, batches of programs that might meet are
    wrong."""
    most_rounds: int = 1 << 24
    """Of one loop."""
    together: bool = False
    """The programs of a batch run at the same time, operation by operation, also where they meet: one of the orders in
    which
    their accesses to memory may come."""
    tracked: frozenset[int] = frozenset()
    """Numbers of the arguments of which is noted what is read before anybody has written it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """Bytes that one program writes and another accesses."""

    argument: int
    """Number of the argument through which the writer wrote."""
    other_argument: int
    """Number of the argument through which the other program read or wrote."""
    writer: int
    other: int
    """Linear number of the program."""
    other_writes: bool
    first_byte: int
    """Counted from the start of `argument`."""
    bytes: int
    has_atomics: bool
    """Whether one of the two accesses is atomic."""
    place: SourceLine | None
    """The write."""
    other_place: SourceLine | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OldBytes:
    """Bytes of an argument that were read before any program had written them."""

    argument: int
    mask: Array
    """bool[bytes]"""
    is_atomic: bool
    """The first read is an atomic operation's, which updates what it reads; so are the others here the first one's."""
    program: int
    first_byte: int
    place: SourceLine | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutOfBounds:
    """Accesses past an argument's bytes by one operation of the kernel: the loads give zero, the stores are dropped."""

    argument: int | None
    """None where the pointer is of no argument."""
    kind: Literal["load", "store", "atomic"]
    first_byte: int
    """Offset, from the argument's start, of the first such access; may be negative."""
    width: int
    """Bytes of an element."""
    count: int
    """Elements, of all programs."""
    program: int
    """The first program that does it."""
    place: SourceLine | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GridOutcome:
    """What a launch did beyond writing its arguments."""

    used_atomics: bool = False
    meeting: tuple[Meeting, ...] | None = None
    """At most some for each pair of operations, atomics against atomics left out; None where no programs meet."""
    drawn: tuple[Meeting, ...] = ()
    """Some pairs of programs whose atomic operations meet, of those that `atomic_order` lists: the order of the
    programs may
    show in more than rounding."""
    old: tuple[OldBytes, ...] = ()
    """Of the tracked arguments."""
    meetings_known: bool = True
    """Whether meetings across batches were looked for in full."""
    out_of_bounds: tuple[OutOfBounds, ...] = ()
    waited: bool = False
    """A program seemed to wait for another one of its batch, as at a lock."""
    printed: tuple[str, ...] = ()
    failed_asserts: tuple[str, ...] = ()
    sequential_programs: int = 0
    """Programs that were evaluated one by one, as they met."""
