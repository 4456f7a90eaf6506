"""Verdicts of a pair, by the entry of `inspect`, and what contradicts a claim about them."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ligerdiag.dumps.budget import limit_time
from ligerdiag.errors import LigerdiagError
from ligerdiag.findings import Verdict
from ligerdiag.hlo.parse import parse_hlo
from ligerdiag.inspection import Compilation, inspect_compilation
from tools.claims.mutation import Claim
from tools.claims.pairs import Pair

SECONDS = 10.0
"""Of a processor, for one pair."""
_WRONG = frozenset({Verdict.STALE, Verdict.CLOBBERED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The answer of `inspect` for a pair."""

    outputs: Mapping[str, Verdict] = field(default_factory=dict[str, Verdict])
    refusal: str = ""
    """The reason why it was not judged; empty if it was."""
    notes: tuple[str, ...] = ()
    """Its notes on what was not covered."""

    def __str__(self) -> str:
        return self.refusal or " ".join(verdict.value for verdict in self.outputs.values())


def judge(pair: Pair, effects_cache: Path) -> Judged:
    """Reads and judges the pair. Any exception other than a LigerdiagError is a bug, and is raised."""
    try:
        with limit_time(SECONDS, pair.name):
            optimized, buffers = parse_hlo(pair.optimized.SerializeToString())
            program, _ = parse_hlo(pair.program.SerializeToString())
            compilation = Compilation(
                name=pair.name, program=program, as_written=False, optimized=optimized, buffers=buffers, output_names=()
            )
            inspection = inspect_compilation(compilation, effects_cache=effects_cache)
    except LigerdiagError as error:
        return Judged(refusal=str(error))
    return Judged(outputs=inspection.outputs, notes=inspection.coverage.not_covered)


def find_improved(before: Judged, after: Judged, claims: Collection[Claim]) -> list[str]:
    """Outputs that contradict the weakest of the claims: fresh and were not, or right by luck and were wrong."""
    improved: list[str] = []
    for name, verdict in after.outputs.items():
        was = before.outputs.get(name, Verdict.FRESH)
        if Claim.STALE_STAYS in claims and was is not Verdict.STALE:
            continue
        if (verdict is Verdict.FRESH and was is not Verdict.FRESH) or (verdict is Verdict.LATENT and was in _WRONG):
            improved.append(f"{name}: {was.value} -> {verdict.value}")
    return improved
