"""Records which bytes of which buffer the programs of a launch may read and write, and surely do, in the order of each
program.

1. *May* runs are an upper bound of what any program does; *sure* runs a lower bound of what each program does.
2. If a branch depends on data, both ways are followed. A write on both is sure; a write on one way is not known to the
   other. Reads there are never sure.
3. A read is *uncovered* if the program has not surely written the bytes before.
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ligerdiag.effects.byte_runs import Runs, concatenate, holds, intersect, merge
from ligerdiag.effects.index_values import Budget

FAR = 2**40
"""Bytes; used as the size of a buffer whose size is unknown."""

type Written = dict[int, list[Runs]]


@dataclass(slots=True, kw_only=True, eq=False)
class BufferTrace:
    """The recorded accesses to one argument's buffer."""

    size: int | None
    """Bytes; None where it is not known."""
    zeroed: int = 0
    """Bytes that the launcher sets to zero first."""
    may_write: list[Runs] = field(default_factory=list[Runs])
    sure_write: list[Runs] = field(default_factory=list[Runs])
    may_read: list[Runs] = field(default_factory=list[Runs])
    sure_read: list[Runs] = field(default_factory=list[Runs])
    writes_anywhere: bool = False
    """Some write is to bytes that are not known."""
    reads_anywhere: bool = False
    reads_old: bool = False
    """Some program surely reads bytes that it has not written before."""
    may_read_old: bool = False
    """Some read is uncovered."""
    is_read: bool = False
    plain_read: list[tuple[int, Runs]] = field(default_factory=list[tuple[int, Runs]])
    """Of `sure_read` what is no part of an atomic operation, with the time of each."""
    first_write: int | None = None
    """Time of the first operation that may write."""
    merged: Runs | None = None
    """Of `sure_write` as it is now."""


class Trace:
    """Takes note of reads and writes as they are followed; see the module."""

    def __init__(self, buffers: dict[int, BufferTrace], written: frozenset[int], budget: Budget) -> None:
        """written: the buffers that may be written at all; the others' reads are not kept."""
        self.buffers = buffers
        self._written = written
        self._budget = budget
        self._depth = 0
        self._time = 0

    def read(self, root: int, runs: Runs | None, *, sure: bool, plain: bool) -> None:
        """Bytes that are read, anywhere in the buffer where None. plain: by no atomic operation."""
        buffer = self.buffers.get(root)
        self._time += 1
        if buffer is None:
            return
        buffer.is_read = True
        sure = sure and not self._depth
        if runs is None:
            buffer.reads_anywhere = buffer.may_read_old = True
            return
        runs = runs.clip(0, buffer.size if buffer.size is not None else FAR)
        if not len(runs):
            return
        if root in self._written:
            buffer.may_read.append(runs)
            if sure:
                buffer.sure_read.append(runs)
            if sure and plain:
                buffer.plain_read.append((self._time, runs))
        runs = runs.clip(buffer.zeroed, FAR)
        if buffer.reads_old or not len(runs):
            return
        if not buffer.may_write and not buffer.writes_anywhere:
            buffer.may_read_old = True
            buffer.reads_old = sure
            return
        if not buffer.may_read_old or sure:
            covered = holds(self._merge_sure(buffer), runs)
            buffer.may_read_old |= not covered
            if not covered and sure and not buffer.writes_anywhere:
                earlier = merge(concatenate(buffer.may_write), self._budget)
                buffer.reads_old = not holds(earlier, runs)

    def write(self, root: int, runs: Runs | None, *, sure: bool) -> None:
        """Bytes that are written, anywhere in the buffer where None."""
        buffer = self.buffers.get(root)
        if buffer is None:
            return
        self._time += 1
        if buffer.first_write is None:
            buffer.first_write = self._time
        if runs is None:
            buffer.writes_anywhere = True
            return
        runs = runs.clip(0, buffer.size if buffer.size is not None else FAR)
        if not len(runs):
            return
        buffer.may_write.append(runs)
        if sure:
            buffer.sure_write.append(runs)
            buffer.merged = None

    @contextmanager
    def maybe(self) -> Generator[Written]:
        """Marks everything inside as uncertain: its sure writes are taken back and left in the dictionary."""
        marks = {root: len(buffer.sure_write) for root, buffer in self.buffers.items()}
        taken: Written = {}
        self._depth += 1
        try:
            yield taken
        finally:
            self._depth -= 1
            for root, buffer in self.buffers.items():
                tail = buffer.sure_write[marks[root] :]
                if tail:
                    taken[root] = tail
                    del buffer.sure_write[marks[root] :]
                    buffer.merged = None

    def write_in_both(self, one: Written, other: Written) -> None:
        """Keeps what was written on either way of a branch."""
        for root in one.keys() & other.keys():
            budget = self._budget
            both = intersect(merge(concatenate(one[root]), budget), merge(concatenate(other[root]), budget), budget)
            if len(both):
                self.buffers[root].sure_write.append(both)
                self.buffers[root].merged = None

    def _merge_sure(self, buffer: BufferTrace) -> Runs:
        if buffer.merged is None:
            buffer.merged = merge(concatenate(buffer.sure_write), self._budget)
            buffer.sure_write[:] = buffer.sure_write if self._depth else [buffer.merged]
        return buffer.merged
