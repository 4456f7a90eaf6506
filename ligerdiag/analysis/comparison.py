"""Intended and actual dependence sets, compared output by output.

For each hidden write W and output o, with I and A the two sets:
  stale      FRESH(W) is in I and not in A, in any iteration class; or ORIG(W) is in A and not in I
  clobbered  FRESH(W) is in A and not in I; or ORIG(W) is in I and not in A, FRESH(W) is in A, and W's operand was seen to
             hold the original: two readers want the value, one from before and one from after, and both get the latter
  latent     neither, and a read on the way was lucky: nothing but the schedule's order makes it right
  unknown    W is a kernel of unknown effect and touches o at all; or where W hits memory could not be told
  fresh      otherwise
The worst over all W is the output's verdict.
"""

from dataclasses import dataclass

from ligerdiag.analysis.labels import Labels, LabelSpace
from ligerdiag.analysis.memory import LuckyRead
from ligerdiag.analysis.writes import HiddenWrite
from ligerdiag.findings import VERDICT_ORDER, Verdict


@dataclass(frozen=True, slots=True)
class Cause:
    """Why an output has the verdict that it has: one hidden write's part."""

    write: int
    verdict: Verdict
    lucky: tuple[LuckyRead, ...] = ()


@dataclass(frozen=True, slots=True)
class OutputComparison:
    """One output's verdict and causes (none when fresh)."""

    verdict: Verdict
    causes: tuple[Cause, ...]

    def join(self, causes: tuple[Cause, ...]) -> "OutputComparison":
        """With further causes; the worst verdict wins."""
        verdict = max((self.verdict, *(c.verdict for c in causes)), key=VERDICT_ORDER.index)
        return OutputComparison(verdict, tuple(dict.fromkeys((*self.causes, *causes))))


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """Compares dependence sets of the two programs."""

    writes: tuple[HiddenWrite, ...]
    space: LabelSpace
    moved: frozenset[int]
    """Writes whose loop nesting differs; their iteration classes are folded."""
    undecided: frozenset[int]
    """Writes whose memory could not be told."""
    traced: frozenset[int] = frozenset()
    """Writes whose operand was seen to hold the original, so that its absence elsewhere says something."""

    def compare(self, intended: Labels, actual: Labels) -> OutputComparison:
        """Verdict on one value."""
        causes = [cause for write in self.writes if (cause := self._compare_write(write, intended, actual))]
        verdict = max((c.verdict for c in causes), key=VERDICT_ORDER.index, default=Verdict.FRESH)
        return OutputComparison(verdict, tuple(causes))

    def is_stale(self, write: HiddenWrite, intended: Labels, actual: Labels) -> bool:
        """Whether the value misses the write, or has a part that does."""
        i, a = self._fold(write, intended), self._fold(write, actual)
        fresh, original = self.space.all_fresh(write.index), self.space.all_original(write.index)
        return bool(i & fresh & ~a) or bool(a & original and not i & original)

    def is_clobbered(self, write: HiddenWrite, intended: Labels, actual: Labels) -> bool:
        """Whether the value sees the write though it should not."""
        fresh, original = self.space.all_fresh(write.index), self.space.all_original(write.index)
        if not actual & fresh:
            return False
        if not intended & fresh:
            return True
        return write.index in self.traced and bool(intended & original and not actual & original)

    def _fold(self, write: HiddenWrite, labels: Labels) -> Labels:
        return self.space.forget_iterations(labels, write.index) if write.index in self.moved else labels

    def _compare_write(self, write: HiddenWrite, intended: Labels, actual: Labels) -> Cause | None:
        touched = self.space.all_fresh(write.index)
        is_touched = (intended | actual) & touched
        lucky = tuple(
            key
            for key in self.space.marks_in(actual)
            if isinstance(key, LuckyRead)
            and key.write == write.index
            and (key.after or intended & self.space.all_original(write.index))
        )
        if self.is_stale(write, intended, actual):
            verdict = Verdict.STALE
        elif self.is_clobbered(write, intended, actual):
            verdict = Verdict.CLOBBERED
        elif lucky:
            verdict = Verdict.LATENT
        else:
            verdict = Verdict.FRESH
        if write.unknown or write.index in self.undecided:
            verdict = Verdict.UNKNOWN if is_touched or verdict is not Verdict.FRESH else Verdict.FRESH
        return None if verdict is Verdict.FRESH else Cause(write.index, verdict, lucky)
