"""The records with which `identification` answers: values of the program, evidence, and the identity of a value."""

from dataclasses import dataclass, field
from enum import StrEnum
from itertools import combinations

from ligerdiag.hlo.module import TagPath
from ligerdiag.hlo.shape import ShapeIndex, render_index


@dataclass(frozen=True, slots=True, order=True)
class ProgramValue:
    """One array of the program: a result of an operation, or an argument."""

    path: TagPath
    """Tag path of the operation (see `hlo.module.TagPath`); () for an argument."""
    index: ShapeIndex = ()
    """Leaf of the operation's or argument's shape."""
    argument: int = -1
    """Number of the entry parameter; -1 for the result of an operation."""

    def __str__(self) -> str:
        name = "/".join(f"ld{tag}" for tag in self.path) if self.path else f"argument {self.argument}"
        return name + (render_index(self.index) if self.index else "")


class EvidenceKind(StrEnum):
    """The kinds of evidence that an array equals a value of the program."""

    TAG = "tag"
    """The tag in the instruction's op_name: the operation for which the instruction was made."""
    STRUCTURE = "structure"
    """The expression that computes the value is that of a value of the program."""
    LINEAGE = "lineage"
    """XLA's original value: the value of the program that the array equals, as XLA's passes say."""


class Maker(StrEnum):
    """Who made the instruction that computes a value: the author, XLA, or nobody."""

    AUTHOR = "author"
    """The author wrote the operation; the instruction is the operation or a clone of it."""
    XLA = "xla"
    """A pass of XLA made the instruction."""
    ARGUMENT = "argument"
    """Nobody: the value is an argument of the program."""
    UNKNOWN = "unknown"
    """The evidence does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One piece of evidence that an array equals certain values of the program. It is firm or not."""

    kind: EvidenceKind
    values: frozenset[ProgramValue]
    """The values of the program that the evidence names, and the values that equal them by the program's own structure."""
    near: frozenset[ProgramValue] = field(default=frozenset(), repr=False)
    """The values in `values`, and the values that differ from them only by conversions between floating-point types, which
    XLA removes.
    """
    is_firm: bool
    """Whether the evidence says that the array equals `values`. It does not if it is a tag on an instruction that a pass may
    have made for the operation, or lineage that contradicts the shape.
    """
    said: str
    """The text of the evidence, such as `origin={{"ld6"}}` or `#ld5`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueIdentity:
    """The values of the program that one array of the schedule equals, its maker, and the evidence."""

    values: frozenset[ProgramValue] = frozenset()
    """The values of the program whose dimensions and elements the array has, up to rounding; empty if none is known."""
    maker: Maker = Maker.UNKNOWN
    made_for: TagPath = ()
    """Tag path of the operation for which the instruction was made, by its tag; () without a tag."""
    evidence: tuple[Evidence, ...] = ()

    @property
    def is_known(self) -> bool:
        return bool(self.values)

    @property
    def contradictions(self) -> tuple[tuple[Evidence, Evidence], ...]:
        """Returns the pairs of evidence that contradict each other. They name values of the program that differ by more than
        rounding.
        """
        named = [one for one in self.evidence if one.values]
        return tuple([pair for pair in combinations(named, 2) if pair[0].near.isdisjoint(pair[1].near)])

    @property
    def is_contradicted(self) -> bool:
        """Returns whether two pieces of firm evidence name different values. `values` then has only the values that the
        structure names. Both pieces may be right, because XLA may know that the two values are equal.
        """
        return any(one.is_firm and other.is_firm for one, other in self.contradictions)


UNKNOWN = ValueIdentity()
"""The identity of an array of which nothing is known."""
