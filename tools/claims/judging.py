"""Verdicts of a pair, by the entry of `inspect`, and what contradicts a claim about them."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ligerdiag.dumps.content import limit_time
from ligerdiag.errors import LigerdiagError
from ligerdiag.hlo.parse import parse_hlo
from ligerdiag.inspection.compilation import analyse_compilation
from ligerdiag.inspection.coverage import Compilation
from ligerdiag.model.findings import Verdict
from ligerdiag.model.report import Inspection
from ligerdiag.workers.pool import Pool
from tools.claims.mutation import Claim
from tools.claims.pairs import Pair

SECONDS = 10.0
"""Of a processor, for one pair."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The answer of `inspect` for a pair."""

    outputs: Mapping[str, Verdict] = field(default_factory=dict[str, Verdict])
    refusal: str = ""
    """Why it was not judged; empty where it was."""
    meant: frozenset[str] = frozenset()
    """Outputs that are meant to see the program's only hidden write; none where there are several."""
    notes: tuple[str, ...] = ()
    """The lines under "not covered"."""
    inspection: Inspection | None = None
    """All that it says; None where it was not judged."""

    def __str__(self) -> str:
        return self.refusal or " ".join(verdict.value for verdict in self.outputs.values())


def judge(pair: Pair, effects_cache: Path, readers: Pool | None = None) -> Judged:
    """Reads and judges the pair. Whatever else than a LigerdiagError comes out of it is a bug, and is raised.

    readers: workers that read kernels, where many are new; None starts one where it is needed.
    """
    try:
        with limit_time(SECONDS, pair.name):
            optimized, buffers = parse_hlo(pair.optimized.SerializeToString())
            program, _ = parse_hlo(pair.program.SerializeToString())
            compilation = Compilation(
                name=pair.name, program=program, as_written=False, optimized=optimized, buffers=buffers, output_names=()
            )
            inspection = analyse_compilation(compilation, effects_cache=effects_cache, readers=readers).inspection
    except LigerdiagError as error:
        return Judged(refusal=str(error))
    return Judged(
        outputs=inspection.outputs,
        meant=_find_meant(inspection),
        notes=inspection.coverage.not_covered,
        inspection=inspection,
    )


def _find_meant(inspection: Inspection) -> frozenset[str]:
    if len(inspection.written) != 1:
        return frozenset()
    first = 1  # FRESH of the only write, as long as no loop has gone on since (see `labels`)
    return frozenset([name for name, labels in inspection.meant.items() if labels & first])


def find_improved(before: Judged, after: Judged, claims: Collection[Claim]) -> list[str]:
    """Outputs that contradict the weakest of the claims: fresh and were not, or right by luck and were wrong."""
    improved: list[str] = []
    moves_write = bool({Claim.STALE_STAYS, Claim.MISSED} & set(claims))
    for name, verdict in after.outputs.items():
        was = before.outputs.get(name, Verdict.FRESH)
        if Claim.MISSED in claims and verdict is Verdict.FRESH and name in before.meant:
            improved.append(f"{name}: {was.value} -> {verdict.value}, and misses a write")
            continue
        if moves_write and was not in (Verdict.STALE, Verdict.UNKNOWN):
            continue
        if (verdict is Verdict.FRESH and was is not Verdict.FRESH) or (verdict is Verdict.LATENT and was.is_wrong):
            improved.append(f"{name}: {was.value} -> {verdict.value}")
    return improved
