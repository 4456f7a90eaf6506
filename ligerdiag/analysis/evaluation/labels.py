"""Represents a dependence set as one integer: the meaning of each bit, and how a custom call passes labels on.

A value's *dependence set* says on which hidden writes the value depends. Its elements are *labels*: FRESH(W) says that
the value depends on what the hidden write W wrote, ORIG(W) that it depends on the contents from before W.
`verdict.comparison` defines both, and their *iteration classes*: in class 0, W happened in this iteration of the loops
around it; in class c >= 1, in an earlier iteration of the loop at nesting level c. A set has two bits for each hidden
write W and each class c: FRESH(W, c) and ORIG(W, c). Without classes, a loop-carried dependence would hide a dependence
that is missing in this iteration. `LabelSpace.advance` moves labels to their class in the next iteration; of several
loops that have advanced since the write, the outermost counts.

Above these bits are *marks*: one bit for each discovery of the evaluation, such as a lucky read or a stale reader. A
mark spreads to every value downstream, as a label does.

A custom call passes labels on by the same rules in the program and in the schedule (`transfer_call`):

- The call's results depend on every operand that it may read, except one whose contents certainly reach no output
  (`list_unused`), and a hidden-written one in which the kernel reads nothing that it has not written there before, such
  as a workspace: what an earlier call left in it has no effect.
- A hidden-written operand then depends on every operand that the call may read, except such a workspace, and is FRESH.
  If it is unknown whether the kernel writes,
  the operand is FRESH and has no other label, because no other dependence is certain. If the kernel writes all of it and
  reads nothing there first, the operand loses all earlier labels and marks.
- A kernel is expected to read its operand before overwriting it, so this read does not pass ORIG(W, 0) on: that label
  ends at the call. ORIG(W, c) of an earlier iteration is passed on, because in that iteration the operand held another
  value. A mark that says that a value is wrong about this write (`WrongAbout`) ends at the call in the same way,
  because the kernel replaces the contents of the operand.
- The result of a kernel with unknown effects is FRESH of that unknown write: every value downstream is then unknown.
- In an evaluation about the bytes themselves (`direct`), a hidden-written operand is FRESH of this write and of no
  other one: the kernel may have computed it from other kernels' results, but their bytes are elsewhere. Marks
  propagate.

Most of a large schedule does not depend on any kernel, and need not be evaluated. An instruction is *inert* if its
operands have no labels, and no label starts at it or in a computation that it calls. The result of an inert instruction
has no labels, and the evaluation does not enter the computations that it calls. In these computations it still records,
with an empty set, the operations that the caller of the evaluation has asked for (`InertInstructions.wanted`).
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ligerdiag.analysis.writes import HiddenWrite
from ligerdiag.effects.access import Access, CallEffects, ReadsBeforeWrite, WriteCoverage
from ligerdiag.hlo.dataflow import look_through, search, unite
from ligerdiag.hlo.module import HloInstruction, HloModule, TagPath
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.shape import count_elements, is_counted

type Labels = int
"""A dependence set: an integer with one bit for each label or mark in the set (see the module's docstring)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Confluence:
    """The alternative values of the result of a loop or conditional. When the program runs, one of them becomes the
    result.
    """

    instruction: str
    """Name of the loop or conditional."""
    alternatives: tuple[tuple[Labels, ...], ...]
    """For each leaf of the result, the dependence set of each alternative: one for each branch of a conditional, or one
    for each element of a loop's initial state that takes the leaf's position in some iteration (see
    `HloComputation.rotated_elements`).
    """
    ends: tuple[Labels, ...] = ()
    """For a loop of the program: the dependence set of each leaf of the loop's result."""
    kept: frozenset[int] = frozenset()
    """For a loop of the program: numbers of the leaves that the loop's body returns unchanged."""
    shared: frozenset[int] = frozenset()
    """For a loop of the schedule: numbers of the slices of XLA's buffer assignment that hold several leaves of the
    loop's result, so that a kernel that overwrites one of these leaves overwrites the others too.
    """


@dataclass(frozen=True, slots=True)
class WrongAbout:
    """A group of values that are wrong about one hidden write; for example, they miss it. The group is the key of a mark,
    an extra bit in the dependence set of every value computed from one of them. The mark ends where the write overwrites
    a value.
    """

    write: int
    """Index of the hidden write; -1 if no write ends the mark."""
    instruction: int
    """Number of the mark's question: which outputs depend on the wrong values (see `verdict.output_reachability`)? It is n,
    from 0 on, if the wrong values are results of instructions in the optimized module. It is the negative number `~n` if
    they are results of operations of the program.
    """


@dataclass(frozen=True, slots=True)
class _Earlier:
    """Key of the mark that replaces the mark with the key `of` at the end of an iteration. The write of the next
    iteration overwrites another value, and does not end this mark.
    """

    of: WrongAbout


@dataclass(slots=True)
class LabelSpace:
    """The bit layout of dependence sets for `writes` hidden writes under at most `depth` nested loops."""

    writes: int
    depth: int
    _marks: dict[object, int] = field(default_factory=dict[object, int])
    _keys: list[object] = field(default_factory=list[object])
    """The key of each mark, in the order of the marks' numbers."""
    _wrong: dict[int, Labels] = field(default_factory=dict[int, Labels])
    _before: dict[int, Labels] = field(default_factory=dict[int, Labels])
    _inside: dict[frozenset[int], tuple[Labels, Labels, int]] = field(
        default_factory=dict[frozenset[int], tuple[Labels, Labels, int]]
    )
    """Cache of `advance`. Maps the indices of the hidden writes inside a loop to the labels FRESH(W, 0) and ORIG(W, 0)
    of these writes, the marks of values that are wrong about them, and the number of marks that existed when the entry
    was made.
    """
    _fresh: list[Labels] = field(init=False)
    _original: list[Labels] = field(init=False)
    _first_original: list[Labels] = field(init=False)
    classes: int = field(init=False)
    """Number of iteration classes: `depth` + 1."""
    _firsts: Labels = field(init=False)
    """The set of the labels FRESH(W, 0) of all hidden writes W."""
    _every_fresh: Labels = field(init=False)

    def __post_init__(self) -> None:
        self.classes = self.depth + 1
        once, width = (1 << self.classes) - 1, 2 * self.classes
        self._first_original = [1 << (width * write + self.classes) for write in range(self.writes)]
        self._fresh = [once << (width * write) for write in range(self.writes)]
        self._original = [once << (width * write + self.classes) for write in range(self.writes)]
        self._firsts = ((1 << (width * self.writes)) - 1) // ((1 << width) - 1)
        self._every_fresh = self._firsts * once

    @property
    def above(self) -> Labels:
        """Returns the lowest bit that belongs to no hidden write. This bit and all higher bits are marks, so `labels &
        -above` keeps only the marks.
        """
        return 1 << (2 * self.classes * self.writes)

    def fresh(self, write: int) -> Labels:
        """Returns the label FRESH(write, 0): a value depends on what the hidden write wrote in this iteration."""
        return 1 << (2 * self.classes * write)

    def original(self, write: int) -> Labels:
        """Returns the label ORIG(write, 0): a value depends on the contents from before the hidden write in this
        iteration.
        """
        return self._first_original[write]

    def all_fresh(self, write: int) -> Labels:
        """Returns the labels FRESH(write, c) of every iteration class c."""
        return self._fresh[write]

    def all_original(self, write: int) -> Labels:
        """Returns the labels ORIG(write, c) of every iteration class c."""
        return self._original[write]

    def any_fresh(self, labels: Labels) -> Labels:
        """Returns the hidden writes on whose results a value depends. These are all W with FRESH(W, c) in `labels` for
        any iteration class c. They are returned as bits (see `bits_of`).
        """
        found = fresh = labels & self._every_fresh
        for number in range(1, self.classes):
            found |= fresh >> number
        return found & self._firsts

    def any_original(self, labels: Labels) -> Labels:
        """Returns the hidden writes on whose old contents a value depends. These are all W with ORIG(W, c) in `labels`
        for any iteration class c. They are returned as bits (see `bits_of`).
        """
        return self.any_fresh(labels >> self.classes)

    def bits_of(self, writes: Iterable[int]) -> Labels:
        """Returns a set of hidden writes as bits. It has the bit of the label FRESH(W, 0) for each hidden write W of the
        set. Functions that take or return hidden writes "as bits" use this form. writes: indices of the hidden writes.
        """
        return unite(1 << (2 * self.classes * write) for write in writes)

    def writes_of(self, bits: Labels) -> Iterator[int]:
        """Yields the indices of the hidden writes in a set that `bits_of` or `any_fresh` returned, in ascending order."""
        width = 2 * self.classes
        while bits:
            lowest = bits & -bits
            yield (lowest.bit_length() - 1) // width
            bits ^= lowest

    def meet(self, ends: Sequence[Labels], writes_inside: frozenset[int]) -> Labels:
        """Returns the dependence set of a value where alternative paths join, such as the branches of a conditional. It is
        the union of the value's sets on all paths, without some ORIG labels.

        A path that does not call the kernel of a hidden write W means the contents from before W, so these are right. If
        one path has FRESH(W, c) for any iteration class c, ORIG(W, 0) is left out of the sets of all paths that have no
        such label.

        ends: the value's set at the end of each path. writes_inside: indices of the hidden writes on these paths; the
        labels of all other writes are kept.
        """
        union = unite(ends)
        if not union or not writes_inside:
            return union
        wrote = [self.any_fresh(labels) for labels in ends]
        split = unite(wrote) & self.bits_of(writes_inside)
        return unite(
            labels & ~unite(self.original(write) for write in self.writes_of(split & ~fresh))
            for labels, fresh in zip(ends, wrote, strict=True)
        )

    def mark(self, key: object) -> Labels:
        """Returns the bit of the mark with the key `key`. The same key always gives the same bit."""
        number = self._marks.get(key)
        if number is None:
            number = self._marks[key] = len(self._marks)
            self._keys.append(key)
            if isinstance(key, WrongAbout):
                self._wrong[key.write] = self._wrong.get(key.write, 0) | self.mark(key)
                if key.instruction < 0:
                    self._before[key.write] = self._before.get(key.write, 0) | self.mark(key)
                self.mark(_Earlier(key))  # gets the next bit: `advance` shifts by one
        return 1 << (2 * self.classes * self.writes + number)

    def without_marks(self) -> "LabelSpace":
        """Returns a new label space for the same hidden writes and loops, without marks. An evaluation can then make
        marks of its own.
        """
        return LabelSpace(self.writes, self.depth)

    def wrong_about(self, write: int) -> Labels:
        """Returns the bits of all marks so far that say that a value is wrong about a hidden write in the current
        iteration.
        """
        return self._wrong.get(write, 0)

    def wrong_before(self, write: int) -> Labels:
        """Returns those bits of `wrong_about(write)` whose marks are on operations of the program. Leaves out the marks on
        instructions of the optimized module.
        """
        return self._before.get(write, 0)

    def marks_in(self, labels: Labels) -> list[object]:
        """Returns the keys of the marks in a dependence set, each once. A mark that `advance` has put in place of an older
        one has the key of the older one.
        """
        digits = bin(labels >> (2 * self.classes * self.writes))[:1:-1]
        found: list[object] = []
        at = digits.find("1")
        while at >= 0:
            key = self._keys[at]
            found.append(key.of if isinstance(key, _Earlier) else key)
            at = digits.find("1", at + 1)
        return list(dict.fromkeys(found))

    def advance(self, labels: Labels, level: int, writes_inside: frozenset[int]) -> Labels:
        """Returns a value's dependence set after one more iteration of a loop. level: nesting level of the loop (1 =
        outermost). writes_inside: indices of the hidden writes in the loop.

        The labels of these writes change their iteration class. Class 0 becomes `level`; class c >= 1 becomes min(c, level),
        because the outermost loop that advanced counts. A value that was wrong about a write stays wrong: the write of the
        next iteration does not overwrite it.
        """
        if not labels:
            return labels
        fields, wrong_about, marks = self._inside.get(writes_inside, (0, 0, -1))
        if marks != len(self._keys):
            fields = self.bits_of(writes_inside)
            wrong_about = unite(map(self.wrong_about, writes_inside))
            fields |= fields << self.classes
            self._inside[writes_inside] = (fields, wrong_about, len(self._keys))
        wrong = labels & wrong_about
        labels = labels & ~wrong | wrong << 1
        moved = 0
        for number in (0, *range(level + 1, self.classes)):  # classes 1..level stay
            found = labels >> number & fields
            labels &= ~(found << number)
            moved |= found
        return labels | moved << level


@dataclass(frozen=True, slots=True)
class CallTransfer:
    """The dependence sets after one custom call, as `transfer_call` returns them."""

    results: Labels
    """The dependence set that every output of the call gets."""
    written: tuple[tuple[int, Labels, Labels], ...]
    """For each hidden-written operand: (number of the operand, labels that its set loses, labels that its set gains)."""


def transfer_call(
    effects: CallEffects,
    operands: list[Labels],
    writes: tuple[HiddenWrite, ...],
    space: LabelSpace,
    *,
    direct: bool = False,
    unused: Collection[int] = (),
) -> CallTransfer:
    """Returns the dependence sets after a custom call, by the rules in the module's docstring. operands: the set of
    each operand before the call. writes: the call's own hidden writes. direct: whether labels describe only the bytes
    of a value itself, and not the values from which the bytes were computed. unused: numbers of the operands on which the
    results do not depend.
    """
    read, used, scratch = 0, 0, _find_scratch(effects, writes)
    for number, labels in enumerate(operands):
        access = effects.operands[number] if number < len(effects.operands) else Access.UNKNOWN
        if access not in (Access.NONE, Access.WRITE) and number not in scratch:
            read |= labels
            used |= 0 if number in unused else labels
    replaced = {write.index: space.original(write.index) | space.wrong_about(write.index) for write in writes}
    read &= ~unite(replaced.values())
    used &= ~unite(replaced.values())
    results = used | unite(space.fresh(write.index) for write in writes if write.unknown)
    before = unite(space.wrong_before(write.index) for write in writes)
    if direct:
        read &= -space.above
    written: list[tuple[int, Labels, Labels]] = []
    for write in writes:
        is_whole = scratch.get(write.operand) is WriteCoverage.COMPLETE
        dropped = -1 if is_whole else replaced[write.index] | before
        written.append((write.operand, dropped, (0 if write.unknown else read) | space.fresh(write.index)))
    return CallTransfer(results, tuple(written))


_TAKES_PART = having(Trait.TAKES_PART)
_VIEWS = _TAKES_PART | {"bitcast"}
"""Opcodes of instructions that, fused with a kernel, may give it an address inside their operand."""


def list_unused(effects: CallEffects, call: HloInstruction) -> frozenset[int]:
    """Returns the numbers of the operands on which the results of a call certainly do not depend. Empty if two of the call's
    buffers may be the same bytes, because a kernel that writes one of them then changes the other.
    """
    sources, operands = effects.result_sources, call.operands
    arrays = {look_through(one, _VIEWS).id for one in operands}
    if sources is None or call.operand_output_aliases or len(arrays) < len(operands):
        return frozenset()
    return frozenset(range(len(operands))) - frozenset(sources)


def _find_scratch(effects: CallEffects, writes: tuple[HiddenWrite, ...]) -> dict[int, WriteCoverage]:
    """Returns the hidden-written operands whose old contents the kernel surely does not read, with how much of each it
    writes.
    """
    uses = {one.operand: effects.operand_uses[one.operand] for one in writes if not one.unknown and one.output is None}
    return {number: use.coverage for number, use in uses.items() if use.reads_before_write is ReadsBeforeWrite.NO}


_STEPS, _BOUNDS, _BITS = having(Trait.STEPS), having(Trait.BOUNDS), frozenset({"bitcast-convert"})


def decides(instruction: HloInstruction) -> bool:
    """Returns whether an operation turns numbers into a decision. Its result mostly stays the same if the operands
    change slightly.

    Examples are comparisons, step functions and conversions to integers. A limit of a single number, such as
    `minimum(norm, 1.0)`, is a decision too.
    """
    if instruction.opcode in _BOUNDS:
        return count_elements(instruction.shape) == 1
    if instruction.opcode in _STEPS:
        return True
    is_number = is_counted(instruction.shape) and instruction.opcode not in _BITS
    return is_number and not all(is_counted(operand.shape) for operand in instruction.operands)


def takes_part(instruction: HloInstruction) -> bool:
    """Returns whether the instruction takes some elements of an array and leaves others."""
    if instruction.opcode not in _TAKES_PART:
        return False
    return count_elements(instruction.shape) < count_elements(instruction.operands[0].shape)


def is_one_choice(instruction: HloInstruction) -> bool:
    """Returns whether the instruction is a `select` with a scalar predicate: its result is then one of two whole arrays."""
    if instruction.opcode != "select":
        return False
    chooser = instruction.operands[0]
    while chooser.opcode in _SPREADS and chooser.operands:
        chooser = chooser.operands[0]
    return count_elements(chooser.shape) == 1


_SPREADS = having(Trait.KEEPS_SCALAR, Trait.BARRIER)
_FOLLOWED = having(Trait.RUNS_SCHEDULED, Trait.UPDATE) | {"custom-call", "async-done"}
"""Opcodes of instructions that are never inert: they run computations, or change memory in other ways."""
_NOT_RECORDED = having(Trait.NO_OPERATION) - having(Trait.FROM_NOTHING)
"""Opcodes of fused instructions that compute nothing, and for which no operation is recorded."""


@dataclass(slots=True, eq=False)
class InertInstructions:
    """Finds the instructions that one evaluation of the schedule can skip. No label starts at such an instruction or inside
    it. So if the dependence sets of its operands are empty, the set of its result is empty too (it is *inert*).
    """

    module: HloModule
    started: frozenset[int]
    """Ids of the instructions, scheduled or fused, at which a label or mark starts."""
    wanted: frozenset[TagPath]
    """Tag paths of the operations that the evaluation has to record even if they depend on no hidden write. (A tag path
    is the tag of an operation, after the tags of the calls that lead to it.)
    """
    _active: frozenset[int] = field(init=False)
    """Ids of the computations that the evaluation must enter because they, or computations that they call, contain a
    kernel call or an instruction at which a label starts. A fused computation that calls another computation with a
    wanted operation counts too, with its callers: `list_sought` does not look into that other computation.
    """
    _sought: defaultdict[int, list[HloInstruction]] = field(
        default_factory=lambda: defaultdict[int, list[HloInstruction]](list)
    )
    """Maps the id of a computation to those of its own instructions that compute an operation in `wanted`, in the
    computation's order.
    """

    def __post_init__(self) -> None:
        module, wanted, tags, homes = self.module, self.wanted, self.module.tags, self.module.homes
        sought = [number for number, path in tags.items() if path in wanted] if wanted else []
        for home in dict.fromkeys([homes[number] for number in sought if number in homes]):
            for one in home.instructions:
                if one.opcode not in _NOT_RECORDED and tags.get(one.id) in wanted:
                    self._sought[home.id].append(one)
        callers = [caller for number in self._sought for caller in self._list_callers(number)]
        deep = [caller for caller in callers if not module.computations[caller].sequence]
        starting = [homes[number].id for number in self.started if number in homes]
        calling = [home.id for home, _ in module.iterate_custom_calls()]
        self._active = frozenset(search([*calling, *starting, *deep], self._list_callers))

    def _list_callers(self, number: int) -> list[int]:
        """Returns the ids of the computations that call the computation with this id."""
        return [self.module.homes[one.id].id for one in self.module.callers.get(number, ())]

    def is_inert(self, instruction: HloInstruction) -> bool:
        """Returns whether no label can start at a scheduled instruction or inside it. The evaluation may then skip the
        instruction if its operands have no labels either.
        """
        if instruction.opcode == "fusion" and instruction.called_computations[0] in self._active:
            return False
        return instruction.id not in self.started and instruction.opcode not in _FOLLOWED

    def list_sought(self, instruction: HloInstruction) -> list[HloInstruction]:
        """Returns the operations in `wanted` that a skipped instruction computes. These are the instruction itself, or
        operations fused into it. They are to be recorded although the instruction is skipped.
        """
        if instruction.opcode == "fusion":
            return self._sought.get(instruction.called_computations[0], [])
        return [instruction] if self.module.tags.get(instruction.id) in self.wanted else []
