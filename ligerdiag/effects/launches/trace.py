"""Decides which values of a kernel must be followed, and records the accesses to each argument's buffer.

Most of a kernel's arithmetic concerns data, or addresses of buffers that it only reads; following it costs time and adds
nothing. `Demand` therefore lists the *wanted* values. They are the values on which control flow depends, the operands of
memory operations that may reach a written buffer, the arguments of functions that access memory, and all values from which
these are computed.

`Trace` records the bytes of each buffer that the programs of a launch may access and those that they certainly access. The
records are *runs*, ranges of consecutive bytes, in the order of each program. *May* runs contain every byte that a program
may access; *sure* runs contain only bytes that it certainly accesses. If a branch depends on data, both ways are followed. A
write on both ways is sure. A write on one way is not visible on the other way, and a read on either way is never sure. A
read is *uncovered* if the program has not surely written the bytes before. A write is *blind* if the program has not surely
read the bytes before. If no program may write a byte blindly, the first program that writes it reads it first: a sure read
of the byte then sees the contents from before the launch. An atomic exchange whose result is unused counts as a write and
not as a read.
"""

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field

from ligerdiag.effects.access import OldRead
from ligerdiag.effects.launches.byte_runs import ByteRuns, concatenate, contains, intersect, merge, subtract
from ligerdiag.effects.launches.index_values import Budget
from ligerdiag.effects.pointer_edges import FIRST_OPERAND_ACCESS
from ligerdiag.effects.ttir_module import Function, Operation, TtirModule
from ligerdiag.model.findings import MemoryOperation, OutsideAccess, SourceLine

MIXERS = frozenset({"tt.reduce", "tt.scan", "tt.map_elementwise"})


class Demand:
    """The values of one module's functions that must be followed: the *wanted* values."""

    def __init__(self, module: TtirModule, reaches: Callable[[Function, Operation], bool] | None) -> None:
        """Prepares to list the values of the functions of `module` that must be followed.

        reaches: returns whether the caller needs the addresses of a memory operation in a function; if None, all values
        are wanted.
        """
        self._module, self._reaches = module, reaches
        self._silent: dict[str, bool] = {}
        self._wanted: dict[str, frozenset[int]] = {}
        self.entry = ""
        """Name of the function that is launched."""

    def wants(self, function: Function, op: Operation) -> bool:
        """Returns whether at least one result of the operation must be followed."""
        reaches = self._reaches
        if reaches is None:
            return True
        if function.name not in self._wanted:
            self._wanted[function.name] = compute_demand(
                function,
                reaches=lambda op: reaches(function, op),
                is_silent=self.is_silent,
                is_entry=function.name == self.entry,
            )
        wanted = self._wanted[function.name]
        return any(result in wanted for result in op.results)

    def is_silent(self, name: str) -> bool:
        """Returns whether the function `name` of the module is known to access no memory; false if it is recursive."""
        callee = self._module.functions.get(name)
        if callee is None or not callee.blocks:
            return False
        if name not in self._silent:
            self._silent[name] = False
            self._silent[name] = self.is_silent_inside(callee, -1)
        return self._silent[name]

    def is_silent_inside(self, function: Function, owner: int) -> bool:
        """Returns whether the regions of an operation access no memory. Functions that they call count too.

        owner: index of the operation with the regions; -1 for the whole function.
        """
        inside = {owner}
        for op in reversed(function.operations):
            if op.parent not in inside:
                continue
            inside.add(op.index)
            if op.name in FIRST_OPERAND_ACCESS:
                return False
            if op.name == "tt.call" and not self.is_silent(op.callee):
                return False
        return True


def compute_demand(
    function: Function, *, reaches: Callable[[Operation], bool], is_silent: Callable[[str], bool], is_entry: bool
) -> frozenset[int]:
    """Returns the values of a function that must be followed.

    reaches: returns whether the addresses of a memory operation are needed. is_silent: takes the name of a function;
    returns whether it accesses no memory. is_entry: whether `function` is the kernel itself, so that nothing uses its
    results.
    """
    sources = _collect_sources(function)
    wanted: set[int] = set()
    pending = [value for op in function.operations for value in _get_seeds(op, reaches, is_silent, is_entry)]
    while pending:
        value = pending.pop()
        if value not in wanted:
            wanted.add(value)
            pending.extend(sources.get(value, ()))
    return frozenset(wanted)


def _get_seeds(
    op: Operation, reaches: Callable[[Operation], bool], is_silent: Callable[[str], bool], is_entry: bool
) -> Iterable[int]:
    match op.name:
        case "scf.if" | "scf.condition" | "cf.cond_br":
            return op.operands[:1]
        case "scf.for":
            return op.operands[:3]
        case "tt.call":
            return () if is_silent(op.callee) else op.operands
        case "tt.return":
            return () if is_entry else op.operands
        case name if name in FIRST_OPERAND_ACCESS:
            return op.operands if reaches(op) else ()
        case _:
            return ()


def _collect_sources(function: Function) -> dict[int, list[int]]:
    """Returns, for each value of the function, the values from which it may be computed."""
    sources: dict[int, list[int]] = {}

    def link(targets: Iterable[int], values: Iterable[int]) -> None:
        for target, value in zip(targets, values, strict=False):
            sources.setdefault(target, []).append(value)

    later = [argument for block in function.blocks[1:] for argument in block.arguments]
    for op in function.operations:
        parent = function.operations[op.parent] if op.parent >= 0 else None
        match op.name:
            case "scf.for":
                first = op.regions[0][0].arguments if op.regions and op.regions[0] else ()
                link(first[1:], op.operands[3:])
                link(op.results, op.operands[3:])
            case "scf.while":
                link(op.regions[0][0].arguments if op.regions and op.regions[0] else (), op.operands)
            case "scf.yield" if parent is not None:
                first = parent.regions[0][0].arguments if parent.regions and parent.regions[0] else ()
                if parent.name != "scf.while":
                    link(parent.results, op.operands)
                link(first[1:] if parent.name == "scf.for" else first, op.operands)
            case "scf.condition" if parent is not None:
                link(parent.results, op.operands[1:])
                second = parent.regions[1] if len(parent.regions) > 1 else ()
                link(second[0].arguments if second else (), op.operands[1:])
            case "cf.br" | "cf.cond_br" | "cf.switch":
                for argument in later:
                    sources.setdefault(argument, []).extend(op.operands)
            case name if name == "scf.if" or name in FIRST_OPERAND_ACCESS or name in MIXERS:
                pass  # values from memory or from a reduction are Unknown anyway
            case _:
                for result in op.results:
                    sources.setdefault(result, []).extend(op.operands)
    return sources


_MOST_OLD_READS = 64
"""The most reads of possibly old contents that are recorded for one buffer; the first ones are enough."""

FAR = 2**40
"""The size, in bytes, that is assumed for a buffer of unknown size."""

type Written = dict[int, list[ByteRuns]]


@dataclass(slots=True, kw_only=True, eq=False)
class BufferTrace:
    """The accesses of a launch to the buffer of one kernel argument. It records the bytes that the programs may access, and
    the bytes that they surely access.
    """

    size: int | None
    """Bytes of the buffer; None if unknown."""
    zeroed: int = 0
    """How many bytes, from the start of the buffer, the launcher sets to zero before the kernel runs."""
    may_write: list[ByteRuns] = field(default_factory=list[ByteRuns])
    sure_write: list[ByteRuns] = field(default_factory=list[ByteRuns])
    may_read: list[ByteRuns] = field(default_factory=list[ByteRuns])
    sure_read: list[ByteRuns] = field(default_factory=list[ByteRuns])
    writes_anywhere: bool = False
    """Whether some write goes to unknown addresses."""
    reads_anywhere: bool = False
    reads_old: bool = False
    """Whether some program surely reads bytes that it has not written before."""
    may_read_old: bool = False
    """Whether some program may read bytes that it has not surely written before."""
    plain_read: list[tuple[int, ByteRuns, SourceLine | None]] = field(
        default_factory=list[tuple[int, ByteRuns, SourceLine | None]]
    )
    """Sure reads outside atomic operations, each with its time and source line. Times count the recorded operations."""
    writes_beyond: bool = False
    """Whether an operation may write outside of the buffer, and not in it."""
    watches_old: bool = False
    """Whether the evaluation looks for reads of contents from before the launch; only then are `old_read`, `blind_write`,
    `update` and `first_read` recorded.
    """
    old_read: list[tuple[ByteRuns, OldRead]] = field(default_factory=list[tuple[ByteRuns, OldRead]])
    """Sure reads of bytes that the same program cannot have written before."""
    blind_write: list[ByteRuns] = field(default_factory=list[ByteRuns])
    blind_anywhere: bool = False
    update: OldRead | None = None
    """The first atomic operation that reads the bytes that it updates, whether it surely executes or not."""
    first_read: OldRead | None = None
    """The first operation that reads, whether it surely executes or not."""
    first_write: int | None = None
    """Time of the first operation that may write. Times count the recorded operations."""
    outside: dict[tuple[str, int], OutsideAccess] = field(default_factory=dict[tuple[str, int], OutsideAccess])
    """Accesses that are surely outside the buffer, by (function, index of the operation)."""
    merged: ByteRuns | None = None
    """The bytes of `sure_write` as merged runs; None until needed."""


class Trace:
    """Records which bytes of each buffer one launch reads and writes."""

    def __init__(self, buffers: dict[int, BufferTrace], written: frozenset[int], budget: Budget) -> None:
        """Starts an empty record of one launch.

        buffers: by the number of the kernel's argument. written: numbers of the buffers that the kernel may write; the
        bytes that are read are recorded only for these.
        """
        self.buffers = buffers
        self._written = written
        self._budget = budget
        self._depth = 0
        self._time = 0

    def read(
        self, root: int, runs: ByteRuns | None, *, sure: bool, plain: bool, place: SourceLine | None = None
    ) -> None:
        """Records a read of a buffer.

        root: number of the argument. runs: the bytes, or None for any bytes of the buffer. sure: whether the read
        surely happens. plain: true for a load, false for the read of an atomic operation. place: the source line.
        """
        buffer = self.buffers.get(root)
        self._time += 1
        if buffer is None:
            return
        sure = sure and not self._depth
        if buffer.watches_old:
            self._watch_read(buffer, runs if sure else None, OldRead(is_atomic=not plain, line=place))
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
                buffer.plain_read.append((self._time, runs, place))
        runs = runs.clip(buffer.zeroed, FAR)
        if buffer.reads_old or not len(runs):
            return
        if not buffer.may_write and not buffer.writes_anywhere:
            buffer.may_read_old = True
            buffer.reads_old = sure
            return
        if not buffer.may_read_old or sure:
            covered = contains(self._merge_sure(buffer), runs)
            buffer.may_read_old |= not covered
            if not covered and sure and not buffer.writes_anywhere:
                earlier = merge(concatenate(buffer.may_write), self._budget)
                buffer.reads_old = not contains(earlier, runs)

    def _watch_read(self, buffer: BufferTrace, runs: ByteRuns | None, read: OldRead) -> None:
        """Records a read that may see contents from before the launch. runs: the bytes that are surely read, None if
        none are.
        """
        buffer.first_read = buffer.first_read or read
        if read.is_atomic and buffer.update is None:
            buffer.update = read
        if runs is None or buffer.writes_anywhere or len(buffer.old_read) >= _MOST_OLD_READS:
            return
        runs = merge(runs.clip(0, buffer.size if buffer.size is not None else FAR), self._budget)
        runs = subtract(runs, merge(concatenate(buffer.may_write), self._budget), self._budget)
        if len(runs):
            buffer.old_read.append((runs, read))

    def find_old_read(self, buffer: BufferTrace) -> OldRead | None:
        """Returns a read that surely sees the buffer's contents from before the launch; None if there is none."""
        if not buffer.may_write and not buffer.writes_anywhere:
            return buffer.first_read if buffer.reads_old else None
        if buffer.update is not None and not buffer.blind_anywhere and not buffer.blind_write:
            return next((read for _, read in buffer.old_read), buffer.update)
        if buffer.blind_anywhere:
            return None
        blind = merge(concatenate(buffer.blind_write), self._budget, by_program=False)
        for runs, read in buffer.old_read:
            if len(subtract(merge(runs, self._budget, by_program=False), blind, self._budget)):
                return read
        return None

    def write(self, root: int, runs: ByteRuns | None, *, sure: bool, is_update: bool = False) -> None:
        """Records a write of a buffer.

        root: number of the argument. runs: the bytes, or None for any bytes of the buffer. sure: whether the write
        surely happens. is_update: whether the operation reads the bytes first.
        """
        buffer = self.buffers.get(root)
        if buffer is None:
            return
        self._time += 1
        if buffer.first_write is None:
            buffer.first_write = self._time
        if runs is None:
            buffer.writes_anywhere = True
            buffer.blind_anywhere |= not is_update
            return
        asked = len(runs)
        runs = runs.clip(0, buffer.size if buffer.size is not None else FAR)
        if not len(runs):
            buffer.writes_beyond |= bool(asked)
            return
        if buffer.watches_old and not is_update:
            read = merge(concatenate(buffer.sure_read), self._budget)
            blind = subtract(merge(runs, self._budget), read, self._budget)
            if len(blind):
                buffer.blind_write.append(blind)
        buffer.may_write.append(runs)
        if sure:
            buffer.sure_write.append(runs)
            buffer.merged = None

    def note_outside(self, root: int, runs: ByteRuns, width: int, function: Function, op: Operation) -> None:
        """Records the bytes of an access that are outside of the buffer. Does nothing in a `maybe` block, where no access is
        sure.

        root: number of the argument. runs: the accessed bytes. width: bytes of an element. op: the operation that accesses
        them.
        """
        buffer = self.buffers.get(root)
        if buffer is None or buffer.size is None or self._depth or not width:
            return
        low, high = runs.clip(-FAR, 0), runs.clip(buffer.size, FAR)
        if not len(low) and not len(high):
            return
        access, key = FIRST_OPERAND_ACCESS[op.name], (function.name, op.index)
        kind = (
            (MemoryOperation.ATOMIC if access.writes else MemoryOperation.LOAD)
            if access.reads
            else MemoryOperation.STORE
        )
        both = concatenate([low, high])
        program = int(both.program.min())
        known = buffer.outside.get(key)
        if known is not None and known.program <= program:
            return
        buffer.outside[key] = OutsideAccess(
            kind=kind,
            buffer=None,
            size=buffer.size,
            first_byte=int(both.start[both.program == program].min()),
            width=width,
            elements=int((both.stop - both.start).sum()) // width,
            program=program,
            line=op.place,
        )

    @contextmanager
    def maybe(self) -> Generator[Written]:
        """Marks all accesses in the `with` block as accesses that may not happen. Yields a dict. After the block, it has the
        writes that surely happen if the block runs, by number of the argument.
        """
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
        """Records the bytes that both ways of a branch surely write as surely written. one, other: the dicts that `maybe`
        yielded for the two ways.
        """
        for root in one.keys() & other.keys():
            budget = self._budget
            both = intersect(merge(concatenate(one[root]), budget), merge(concatenate(other[root]), budget), budget)
            if len(both):
                self.buffers[root].sure_write.append(both)
                self.buffers[root].merged = None

    def _merge_sure(self, buffer: BufferTrace) -> ByteRuns:
        if buffer.merged is None:
            buffer.merged = merge(concatenate(buffer.sure_write), self._budget)
            buffer.sure_write[:] = buffer.sure_write if self._depth else [buffer.merged]
        return buffer.merged
