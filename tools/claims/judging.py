"""Judges a pair through the entry point of `inspect`, and finds verdicts that contradict a claim."""

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
"""Processor seconds for one pair."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The result of `inspect` for a pair."""

    outputs: Mapping[str, Verdict] = field(default_factory=dict[str, Verdict])
    refusal: str = ""
    """Why the pair was not judged; empty if it was."""
    meant: frozenset[str] = frozenset()
    """Outputs that the author means to see the program's only hidden write; none if there are several."""
    notes: tuple[str, ...] = ()
    """The lines under "not covered"."""
    inspection: Inspection | None = None
    """The whole result; None if the pair was not judged."""

    def __str__(self) -> str:
        return self.refusal or " ".join(verdict.value for verdict in self.outputs.values())


def judge(pair: Pair, effects_cache: Path, readers: Pool | None = None) -> Judged:
    """Reads and judges the pair. Any exception other than a LigerdiagError is a bug, and is raised.

    readers: workers that read kernels, if many kernels are new; with None a worker starts when one is needed.
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
    first = 1  # FRESH of the only write, unless a loop has begun another iteration since (see `labels`)
    return frozenset([name for name, labels in inspection.meant.items() if labels & first])


def find_improved(before: Judged, after: Judged, claims: Collection[Claim]) -> list[str]:
    """Returns the outputs that contradict the weakest claim: fresh and were not, or right by luck and were wrong."""
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
