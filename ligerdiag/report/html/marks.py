"""The signs of the report: each has a shape, a colour and a word, so that none of the three is needed to read it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import assert_never

from ligerdiag.findings import VERDICT_ORDER, Verdict
from ligerdiag.schedule_view import Access, AccessKind, ReadKind


@dataclass(frozen=True, slots=True)
class Sign:
    """An entry of the legend."""

    name: str
    """Id of the symbol and name of the style."""
    word: str
    meaning: str


SIGNS: dict[str, Sign] = {
    sign.name: sign
    for sign in (
        Sign("define", "computed", ""),
        Sign("write", "overwritten", "by the kernel, behind XLA's back"),
        Sign("stale", "stale read", "gets the old contents, needs the new"),
        Sign("clobbered", "clobbered read", "gets the new contents, needs the old"),
        Sign("unknown", "unknown read", "could not be decided"),
        Sign("latent", "latent read", "right by luck, nothing forces the order"),
        Sign("fresh", "fresh read", "gets the new contents, as meant"),
        Sign("original", "early read", "gets the old contents, as meant"),
        Sign("reuse", "reused", "XLA puts another value there"),
    )
}
"""By name, in the order of the legend."""

WRONG_READS = (ReadKind.STALE, ReadKind.CLOBBERED, ReadKind.UNKNOWN, ReadKind.LATENT)
"""Reads that are the story, the worst first."""


def sign_of(access: Access) -> Sign:
    """Returns the sign of an access; a read of no kind is as doubtful as an unknown one."""
    match access.kind:
        case AccessKind.DEFINE:
            return SIGNS["define"]
        case AccessKind.HIDDEN_WRITE:
            return SIGNS["write"]
        case AccessKind.REUSE:
            return SIGNS["reuse"]
        case AccessKind.READ:
            return SIGNS["unknown" if access.read is ReadKind.NONE else access.read.value]
        case _:
            assert_never(access.kind)


def compute_worst_verdict(verdicts: Iterable[Verdict]) -> Verdict | None:
    """By `VERDICT_ORDER`; None without any."""
    return max(verdicts, key=VERDICT_ORDER.index, default=None)
