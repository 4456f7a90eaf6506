"""Dependence sets as integers: which bit stands for what.

For each hidden write W, and for each *iteration class* c, two bits:
  FRESH(W, c)  the value depends on what W wrote;
  ORIG(W, c)   the value depends on what stood in W's operand before W, on a path that does not lead through W's kernel.

Iteration class 0 is "this iteration"; class j >= 1 says that the write happened in an earlier iteration of the loop at
nesting level j (1 is the outermost), the outermost loop that has advanced since. Without it a dependence that is carried
round a loop would hide one that is missing now.

Above these come *marks*: one bit for each thing that turned up during the evaluation (a lucky read, a stale reader).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

type Labels = int
"""A set of labels."""


@dataclass(frozen=True, slots=True)
class WrongAbout:
    """Key of a mark: what `instruction` computes is wrong about this hidden write."""

    write: int
    """HiddenWrite index."""
    instruction: int
    """Instruction id in the optimized module."""


@dataclass(frozen=True, slots=True)
class _Earlier:
    """Key of the mark that a mark of this kind becomes when the loop around its write goes on."""

    of: WrongAbout


@dataclass(slots=True)
class LabelSpace:
    """Bit layout for `writes` hidden writes under at most `depth` nested loops."""

    writes: int
    depth: int
    _marks: dict[object, int] = field(default_factory=dict[object, int])
    _keys: list[object] = field(default_factory=list[object])
    """Of the marks, by number."""
    _wrong: dict[int, Labels] = field(default_factory=dict[int, Labels])
    _fresh: list[Labels] = field(init=False)
    _original: list[Labels] = field(init=False)
    _first_original: list[Labels] = field(init=False)
    classes: int = field(init=False)
    """Number of iteration classes."""
    _firsts: Labels = field(init=False)
    """FRESH(W, 0) of every W."""
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
        """The lowest bit that is not of a write."""
        return 1 << (2 * self.classes * self.writes)

    def fresh(self, write: int) -> Labels:
        """FRESH(write, 0)."""
        return 1 << (2 * self.classes * write)

    def original(self, write: int) -> Labels:
        """ORIG(write, 0)."""
        return self._first_original[write]

    def all_fresh(self, write: int) -> Labels:
        """FRESH(write, c) for every c."""
        return self._fresh[write]

    def all_original(self, write: int) -> Labels:
        """ORIG(write, c) for every c."""
        return self._original[write]

    def any_fresh(self, labels: Labels) -> Labels:
        """FRESH(W, 0) of every W of which the set holds FRESH(W, c) for some c."""
        found = fresh = labels & self._every_fresh
        for number in range(1, self.classes):
            found |= fresh >> number
        return found & self._firsts

    def any_original(self, labels: Labels) -> Labels:
        """FRESH(W, 0) of every W of which the set holds ORIG(W, c) for some c."""
        return self.any_fresh(labels >> self.classes)

    def bits_of(self, writes: Iterable[int]) -> Labels:
        """FRESH(W, 0) of these hidden writes."""
        found = 0
        for write in writes:
            found |= 1 << (2 * self.classes * write)
        return found

    def writes_of(self, bits: Labels) -> Iterator[int]:
        """The hidden writes that such bits stand for, rising."""
        width = 2 * self.classes
        while bits:
            lowest = bits & -bits
            yield (lowest.bit_length() - 1) // width
            bits ^= lowest

    def mark(self, key: object) -> Labels:
        """The bit for `key`, the same one each time."""
        number = self._marks.get(key)
        if number is None:
            number = self._marks[key] = len(self._marks)
            self._keys.append(key)
            if isinstance(key, WrongAbout):
                self._wrong[key.write] = self._wrong.get(key.write, 0) | self.mark(key)
                self.mark(_Earlier(key))  # the next bit
        return 1 << (2 * self.classes * self.writes + number)

    def without_marks(self) -> "LabelSpace":
        """The same layout without marks."""
        return LabelSpace(self.writes, self.depth)

    def wrong_about(self, write: int) -> Labels:
        """All marks so far that say that something is wrong about this write in this iteration."""
        return self._wrong.get(write, 0)

    def marks_in(self, labels: Labels) -> list[object]:
        """The keys whose marks are in the set."""
        digits = bin(labels >> (2 * self.classes * self.writes))[:1:-1]
        found: list[object] = []
        at = digits.find("1")
        while at >= 0:
            key = self._keys[at]
            found.append(key.of if isinstance(key, _Earlier) else key)
            at = digits.find("1", at + 1)
        return list(dict.fromkeys(found))

    def advance(self, labels: Labels, level: int, writes_inside: frozenset[int]) -> Labels:
        """The set after one more iteration of the loop at `level` (1 = outermost) around `writes_inside`.

        Class 0 becomes `level`; class c becomes min(c, level), since the outermost loop that advanced counts. What was wrong
        about a write stays so: the write of the next iteration overwrites something else.
        """
        if not labels:
            return labels
        for write in writes_inside:
            wrong = labels & self.wrong_about(write)
            labels = labels & ~wrong | wrong << 1
            for base in (2 * self.classes * write, 2 * self.classes * write + self.classes):
                field_ = labels >> base & ((1 << self.classes) - 1)
                stays = field_ & ((1 << (level + 1)) - 1) & ~1  # classes 1..level
                moves = field_ & ~stays
                if moves:
                    labels = labels & ~(moves << base) | 1 << (base + level)
        return labels

    def forget_iterations(self, labels: Labels, write: int) -> Labels:
        """All iteration classes of `write` folded into class 0, for loops that only one of the programs has."""
        fresh, original = self.all_fresh(write), self.all_original(write)
        folded = labels & ~fresh & ~original
        if labels & fresh:
            folded |= self.fresh(write)
        if labels & original:
            folded |= self.original(write)
        return folded
