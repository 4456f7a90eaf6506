"""Dependence sets as integers: which bit stands for what.

For each hidden write W, and for each *iteration class* c, two bits:
  FRESH(W, c)  the value depends on what W wrote;
  ORIG(W, c)   the value depends on what stood in W's operand before W, on a path that does not lead through W's kernel.

Iteration class 0 is "this iteration"; class j >= 1 says that the write happened in an earlier iteration of the loop at
nesting level j (1 is the outermost), the outermost loop that has advanced since. Without it a dependence that is carried
round a loop would hide one that is missing now.

Above these come *marks*: one bit for each thing that turned up during the evaluation (a lucky read, a stale reader).
"""

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


@dataclass(slots=True)
class LabelSpace:
    """Bit layout for `writes` hidden writes under at most `depth` nested loops."""

    writes: int
    depth: int
    _marks: dict[object, int] = field(default_factory=dict[object, int])

    @property
    def classes(self) -> int:
        """Number of iteration classes."""
        return self.depth + 1

    def fresh(self, write: int) -> Labels:
        """FRESH(write, 0)."""
        return 1 << (2 * self.classes * write)

    def original(self, write: int) -> Labels:
        """ORIG(write, 0)."""
        return 1 << (2 * self.classes * write + self.classes)

    def all_fresh(self, write: int) -> Labels:
        """FRESH(write, c) for every c."""
        return ((1 << self.classes) - 1) << (2 * self.classes * write)

    def all_original(self, write: int) -> Labels:
        """ORIG(write, c) for every c."""
        return ((1 << self.classes) - 1) << (2 * self.classes * write + self.classes)

    def mark(self, key: object) -> Labels:
        """The bit for `key`, the same one each time."""
        number = self._marks.setdefault(key, len(self._marks))
        return 1 << (2 * self.classes * self.writes + number)

    def wrong_about(self, write: int) -> Labels:
        """All marks so far that say that something is wrong about this write."""
        labels = 0
        for key in self._marks:
            if isinstance(key, WrongAbout) and key.write == write:
                labels |= self.mark(key)
        return labels

    def marks_in(self, labels: Labels) -> list[object]:
        """The keys whose marks are in the set."""
        rest = labels >> (2 * self.classes * self.writes)
        return [key for key, number in self._marks.items() if rest >> number & 1] if rest else []

    def advance(self, labels: Labels, level: int, writes_inside: frozenset[int]) -> Labels:
        """The set after one more iteration of the loop at `level` (1 = outermost) around `writes_inside`.

        Class 0 becomes `level`; class c becomes min(c, level), since the outermost loop that advanced counts.
        """
        if not labels:
            return labels
        for write in writes_inside:
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
