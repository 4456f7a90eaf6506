"""The outputs of a case as chips, the wrong ones first, and which of them the numbers call wrong.

1. An output is wrong by the numbers if a replay or a device computed other values than the intended ones, or if program
   order itself differs from the case's reference by more than rounding explains.
2. It is inexact if the rounding of a workaround explains the difference: LD012 says so, or the numbers are lossy.
"""

from dataclasses import dataclass
from enum import StrEnum

from ligerdiag.findings import Verdict
from ligerdiag.outcomes import Attribution
from ligerdiag.report.model import CaseReport

_WRONG = frozenset({Attribution.STALE, Attribution.PARTLY_STALE, Attribution.NEITHER})
_WRONG_VERDICTS = (Verdict.STALE, Verdict.CLOBBERED)
_ROUNDED = "LD012"
SIGN_ORDER = ("stale", "clobbered", "error", "unknown", "warning", "latent", "fresh")
"""Signs of chips, the worst first."""


class NumbersWord(StrEnum):
    """The numbers' statement against an output."""

    WRONG = "wrong by the numbers"
    INEXACT = "inexact"
    NOTHING = ""
    """Nothing; there may be no numbers at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """One output."""

    name: str
    verdict: Verdict
    sign: str
    """Name of a sign: that of the verdict, or of an error or a warning where the numbers are worse."""
    word: str
    number: int
    """Of the output among all chips, 1-based: links lead there."""


def list_chips(case: CaseReport) -> tuple[Chip, ...]:
    """By `SIGN_ORDER`, then in the program's order."""
    words = compute_numbers_words(case)
    said = [(name, verdict, *_judge(verdict, words[name])) for name, verdict in case.outputs.items()]
    said.sort(key=lambda one: SIGN_ORDER.index(one[2]))
    return tuple(
        Chip(name=name, verdict=verdict, sign=sign, word=word, number=number)
        for number, (name, verdict, sign, word) in enumerate(said, start=1)
    )


def compute_numbers_words(case: CaseReport) -> dict[str, NumbersWord]:
    """Output name to what the numbers say."""
    return {name: _compute_word(name, case) for name in case.outputs}


def _compute_word(name: str, case: CaseReport) -> NumbersWord:
    attributions: set[Attribution] = set()
    is_off = False
    if case.replay is not None:
        is_off = case.replay.reference.get(name, 0.0) > case.replay.reference_tolerance.get(name, 0.0)
        attributions |= {case.replay.outputs[name].attribution} if name in case.replay.outputs else set()
    if case.device is not None and name in case.device.outputs:
        attributions.add(case.device.outputs[name].attribution)
    is_rounded = any(finding.rule == _ROUNDED and name in finding.outputs for finding in case.findings)
    if attributions & _WRONG or (is_off and not is_rounded):
        return NumbersWord.WRONG
    return NumbersWord.INEXACT if is_off or Attribution.LOSSY in attributions else NumbersWord.NOTHING


def _judge(verdict: Verdict, word: NumbersWord) -> tuple[str, str]:
    """Returns sign and word of a chip."""
    said = "STALE" if verdict is Verdict.STALE else verdict.value
    if verdict not in _WRONG_VERDICTS and word is NumbersWord.WRONG:
        return "error", f"{said}, {word.value}"
    if verdict in (Verdict.FRESH, Verdict.LATENT) and word is NumbersWord.INEXACT:
        return "warning", f"{said}, {word.value}"
    return verdict.value, said
