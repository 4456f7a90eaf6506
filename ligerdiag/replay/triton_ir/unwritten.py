"""Which bytes of some arguments the programs of a launch have written so far, and where they read others.

1. A byte counts as written once any program of the launch has stored to it, whatever the order of the grid is.
2. An atomic operation reads what it updates, but for an exchange whose result nobody uses.
3. Within one operation all lanes and programs read before any writes.
4. What a batch adds is kept apart until the batch is done: one that is taken back leaves nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ligerdiag.effects.ttir_module import Operation
from ligerdiag.replay.interpreter.scope import Array
from ligerdiag.replay.triton_ir.outcome import OldBytes


@dataclass(slots=True, eq=False)
class _Pending:
    """What the batch that runs has added."""

    written: list[tuple[int, Array]] = field(default_factory=list[tuple[int, Array]])
    """(argument, bytes)"""
    read: list[tuple[int, Array, int, Operation, int]] = field(
        default_factory=list[tuple[int, Array, int, Operation, int]]
    )
    """(argument, first bytes, bytes of an element, operation, the first program), of what nobody had written."""


class WrittenBytes:
    """The bytes of the tracked arguments."""

    def __init__(self, sizes: Mapping[int, int], updates: frozenset[int]) -> None:
        """sizes: bytes of each tracked argument. updates: ids of the atomic operations that read, (2)."""
        self._updates = updates
        self._written = {argument: np.zeros(size, bool) for argument, size in sizes.items()}
        self._old = {argument: np.zeros(size, bool) for argument, size in sizes.items()}
        self._first: dict[int, tuple[Operation, int, int]] = {}
        self._pending = _Pending()

    def holds(self, argument: int) -> bool:
        """Returns whether the argument is tracked."""
        return argument in self._written

    def note(
        self, argument: int, op: Operation, offsets: Array, width: int, programs: Array, *, reads: bool, writes: bool
    ) -> None:
        """Takes note of an operation's elements. offsets, programs: i64[elements], in bytes and numbers of the grid."""
        written = self._written[argument]
        known = written[offsets]
        for byte in range(1, width):
            known &= written[offsets + byte]
        if bool(known.all()):
            return
        fresh = offsets[~known]
        if reads and (not writes or id(op) in self._updates):
            self._pending.read.append((argument, fresh, width, op, int(programs[~known][0])))
        for byte in range(width if writes else 0):
            places = fresh + byte
            places = places[~written[places]]
            written[places] = True
            self._pending.written.append((argument, places))

    def commit(self) -> None:
        """Keeps what the batch has added."""
        for argument, offsets, width, op, program in self._pending.read:
            for byte in range(width):
                self._old[argument][offsets + byte] = True
            self._first.setdefault(argument, (op, program, int(offsets[0])))
        self._pending = _Pending()

    def take_back(self) -> None:
        """Forgets what the batch has added."""
        for argument, places in self._pending.written:
            self._written[argument][places] = False
        self._pending = _Pending()

    def list_old(self) -> tuple[OldBytes, ...]:
        """Returns the bytes of each argument that were read before anybody had written them, where there are any."""
        return tuple(
            OldBytes(
                argument=argument,
                mask=self._old[argument],
                is_atomic=op.name not in ("tt.load", "tt.descriptor_load", "tt.descriptor_gather"),
                program=program,
                first_byte=first,
                place=op.place,
            )
            for argument, (op, program, first) in sorted(self._first.items())
        )
