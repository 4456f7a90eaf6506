"""Judges the provenance of programs by numbers: `python -m tools.fuzz.fingerprint_campaign --help`.

Each program is compiled and analysed; then `tools.fuzz.fingerprints` runs both of its modules without any hidden write,
and judges the claims of `tools.fuzz.provenance_claims` by the values. A row for each program is appended to a file, so
that the same command continues a campaign that was ended. The verdicts are compared with those of opaque functions,
to see whether a refuted claim made one wrong.
"""

import os
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import typer

from ligerdiag.artifacts.artifact import Artifact
from ligerdiag.artifacts.cache import Cache
from ligerdiag.compile.cases.loader import CaseLoader
from ligerdiag.compile.compile_service import compile_cases, discover_cases
from ligerdiag.effects.isolated import CallEffectsReader
from ligerdiag.errors import LigerdiagError, describe_error
from ligerdiag.hlo.module import TagPath
from ligerdiag.inspection.compilation import Analysed, analyse_artifact
from ligerdiag.model.findings import OutputNumbers, ReplayState
from ligerdiag.model.jobs import Variation
from ligerdiag.replay.estimate import count_live_bytes
from ligerdiag.replay.opaque_calls import OpaqueCalls
from ligerdiag.replay.opaque_runs.opaque_run import list_opaque_calls, replay_opaquely
from ligerdiag.replay.ops.scope import Array, NotCoveredError
from ligerdiag.replay.runs.case_inputs import draw_arrays
from ligerdiag.replay.runs.case_run import Programs, load_programs
from ligerdiag.toolchains.gpu_targets import load_target
from ligerdiag.workers.pool import Pool
from tools.fuzz.drawing import draw_program
from tools.fuzz.fingerprints import (
    Claim,
    Fingerprints,
    JudgedClaim,
    Relation,
    count_equal,
    judge_claims,
    record_fingerprints,
)
from tools.fuzz.identity_claims import list_identities
from tools.fuzz.judged_programs import load_known
from tools.fuzz.processes import append_row
from tools.fuzz.provenance_claims import list_claims
from tools.fuzz.source import render_case_file

_BATCH = 12
_MOST_LIVE_BYTES = 32 << 20
"""Programs with more bytes of values alive at once are left out."""
DRAWS = 2
NOT_CLAIMED = ("another", "none")
_COLUMNS = [*(one.value for one in Relation if one is not Relation.OTHER), "refuted"]
_SERIOUS = "serious"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ObservedArtifact:
    """One compilation with its analysis and its values."""

    analysed: Analysed
    effects: CallEffectsReader
    programs: Programs
    calls: OpaqueCalls
    fingerprints: Fingerprints


@dataclass(frozen=True, slots=True, kw_only=True)
class FingerprintRow:
    """One program."""

    name: str
    """The id of the case."""
    claims: str = ""
    """The key in `WITNESSES` of the claims that were judged."""
    reason: str = ""
    """Why the program was not judged; empty if it was."""
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    """Number of claims by `EVIDENCE OPCODE RELATION TRIVIAL`."""
    equal: int = 0
    """Number of arrays of the schedule that equal an operation or an argument."""
    refuted: tuple[JudgedClaim, ...] = ()
    unclaimed: tuple[JudgedClaim, ...] = ()
    verdicts: Mapping[str, str] = field(default_factory=dict[str, str])
    opaque: Mapping[str, str] = field(default_factory=dict[str, str])
    """Attribution of each output by the replay with opaque functions."""
    seconds: float = 0.0
    """Processor seconds of the two runs and of the judgement."""


def claim_today(observed: ObservedArtifact) -> Sequence[Claim]:
    """Returns the claims of `ligerdiag.analysis`."""
    return list_claims(observed.analysed.context, observed.effects.find)


def claim_identities(observed: ObservedArtifact) -> Sequence[Claim]:
    """Returns the claims of `ligerdiag.provenance`."""
    context = observed.analysed.context
    return list_identities(context.program, context.optimized)


WITNESSES: Mapping[str, Callable[[ObservedArtifact], Sequence[Claim]]] = {
    "today": claim_today,
    "identity": claim_identities,
}
"""Name to a function that returns claims; a campaign judges all of them."""


def observe_artifact(artifact: Artifact, draws: Sequence[Sequence[Array]], effects: Path) -> ObservedArtifact:
    """Analyses the artifact and runs both of its modules on each draw of the arguments. Raises NotCoveredError.

    effects: the folder for the effects of kernels.
    """
    programs = load_programs(artifact)
    if count_live_bytes(programs.program) > _MOST_LIVE_BYTES:
        raise NotCoveredError("too large")
    reader = CallEffectsReader(cache=effects, declared=(), readers=None)
    reader.read(programs.program, programs.optimized)
    calls = list_opaque_calls(programs.program, programs.optimized, reader.find)
    return ObservedArtifact(
        analysed=analyse_artifact(artifact, effects_cache=effects),
        effects=reader,
        programs=programs,
        calls=calls,
        fingerprints=record_fingerprints(programs, calls, draws),
    )


def make_row(name: str, judged: Sequence[JudgedClaim]) -> FingerprintRow:
    """Returns the row of a program whose claims were judged."""
    claims = [one for one in judged if one.evidence not in NOT_CLAIMED]
    counts = Counter(f"{c.evidence} {c.opcode} {c.relation.value} {int(c.is_trivial)}" for c in claims)
    return FingerprintRow(
        name=name,
        counts=dict(counts),
        refuted=tuple([one for one in claims if one.relation is Relation.OTHER]),
        unclaimed=tuple([one for one in judged if one.evidence in NOT_CLAIMED]),
    )


def judge_artifact(
    name: str, artifact: Artifact, draws: Sequence[Sequence[Array]], effects: Path
) -> Iterator[FingerprintRow]:
    """Yields a row of one program for each kind of claims; if the program cannot be judged, a single row says why."""
    started = time.process_time()
    try:
        observed = observe_artifact(artifact, draws, effects)
        seconds = time.process_time() - started
        opaque = replay_opaquely(observed.programs, draws[0], observed.calls)
    except LigerdiagError as error:
        yield FingerprintRow(name=name, reason=describe_error(error))
        return
    outputs: Mapping[str, OutputNumbers] = opaque.outputs if opaque.state is ReplayState.DONE else {}
    for claims, find_claims in WITNESSES.items():
        yield replace(
            make_row(name, judge_claims(observed.fingerprints, find_claims(observed))),
            claims=claims,
            equal=count_equal(observed.fingerprints),
            verdicts={name: one.value for name, one in observed.analysed.inspection.outputs.items()},
            opaque={name: one.attribution.value for name, one in outputs.items()},
            seconds=seconds,
        )


def judge_files(selectors: Sequence[str], folder: Path, loader: CaseLoader) -> Iterator[FingerprintRow]:
    """Yields the rows of each case that the selectors select. folder: for the cache."""
    with Pool(cache=Cache(folder / "cache"), jobs=1) as pool:
        cases = discover_cases(list(selectors), pool=pool)
        variation = Variation(lineage=True)
        for result in compile_cases(cases, [load_target("h100")], pool=pool, variation=variation):
            if result.artifact is None:
                yield FingerprintRow(name=result.case.id, reason=str(result.error))
                continue
            case = loader.find_case(result.case.source, result.case.id)
            draws = [draw_arrays(case, number) for number in range(DRAWS)]
            yield from judge_artifact(result.case.id, result.artifact, draws, folder / "effects")


def render(rows: Sequence[FingerprintRow]) -> Iterator[str]:
    """Yields the lines of the summary, in Markdown."""
    for claims in sorted({row.claims for row in rows if not row.reason}):
        judged = [row for row in rows if not row.reason and row.claims == claims]
        yield from (
            f"## {claims}",
            "",
            f"{len(judged)} programs, {sum(row.seconds for row in judged):.0f} processor seconds.",
        )
        yield from (*_render_claims(judged), "")
    yield from _render_contradictions({row.name: row for row in rows if not row.reason}.values())
    reasons = Counter(row.reason for row in rows if row.reason)
    yield from ("", *(f"- {count} x {reason}" for reason, count in reasons.most_common()))


def _render_claims(judged: Sequence[FingerprintRow]) -> Iterator[str]:
    unclaimed = Counter(one.evidence for row in judged for one in row.unclaimed)
    yield (
        f"{sum(row.equal for row in judged)} arrays of the schedules equal an operation or an argument;"
        f" {unclaimed['another']} of them are taken for another one, and nothing is claimed about {unclaimed['none']}."
    )
    yield from ("", f"| evidence | claims | {' | '.join(_COLUMNS)} | refuted, not trivial |")
    yield "|" + "---|" * (len(_COLUMNS) + 3)
    totals: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for row in judged:
        for key, count in row.counts.items():
            evidence, _, relation, trivial = key.split()
            totals[evidence][relation] += count
            totals[evidence][_SERIOUS] += count if relation == Relation.OTHER and trivial == "0" else 0
    for evidence, found in sorted(totals.items()):
        cells = [found.total() - found[_SERIOUS], *(found[one] for one in (*Relation, _SERIOUS))]
        yield f"| {evidence} | {' | '.join(map(str, cells))} |"
    yield from (
        "",
        "| evidence | refuted: instruction | operation | is | claims | example |",
        "|---|---|---|---|---|---|",
    )
    yield from _render_kinds([(row, one) for row in judged for one in row.refuted])
    yield from ("", "| claim | equal: instruction | | | instructions | example |", "|---|---|---|---|---|---|")
    yield from _render_kinds([(row, one) for row in judged for one in row.unclaimed])


def _render_kinds(found: Sequence[tuple[FingerprintRow, JudgedClaim]]) -> Iterator[str]:
    """Yields a line for each kind of answer, the most frequent ones first."""
    kinds: defaultdict[tuple[str, str, str, str], list[str]] = defaultdict(list)
    for row, one in found:
        place = f"`{row.name}` `{one.instruction}` for `{one.operation or render_paths(one.equals)}`"
        nature = "another" if one.equals else "trivial" if one.is_trivial else "none"
        kinds[one.evidence, one.opcode, one.operation_opcode, nature].append(place)
    for kind, places in sorted(kinds.items(), key=lambda pair: -len(pair[1])):
        yield f"| {' | '.join(kind)} | {len(places)} | {places[0]} |"


def render_paths(paths: Sequence[TagPath]) -> str:
    """Renders tag paths as `ld4/ld7`, and arguments as `argument 0`."""
    names = ["/".join(f"ld{tag}" for tag in path) if path[0] >= 0 else f"argument {-1 - path[0]}" for path in paths]
    return ", ".join(names)


def _render_contradictions(rows: Iterable[FingerprintRow]) -> Iterator[str]:
    """Yields a line for each output whose verdict opaque functions contradict."""
    for row in rows:
        for name, verdict in row.verdicts.items():
            seen = row.opaque.get(name, "")
            is_wrong = seen in ("stale", "neither", "partly stale")
            if (verdict in ("fresh", "latent") and is_wrong) or (verdict in ("stale", "clobbered") and seen == "fresh"):
                yield f"- `{row.name}` `{name}` is {verdict}, and {seen} with opaque functions: {len(row.refuted)} refuted"


app = typer.Typer(help=__doc__, add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    selectors: Annotated[list[str] | None, typer.Argument(help="Cases, as `check` takes them.")] = None,
    seeds: Annotated[tuple[int, int] | None, typer.Option(metavar="FIRST END", help="Random programs.")] = None,
    out: Annotated[Path, typer.Option(help="The file of rows.")] = Path("fingerprints.jsonl"),
    cache_dir: Annotated[Path | None, typer.Option(help="Folder that keeps the compiled programs.")] = None,
    minutes: Annotated[float | None, typer.Option(help="Begin no batch of programs after that.")] = None,
) -> None:
    """Judge the programs, and print the summary of all rows of the file."""
    rows, loader = load_known(FingerprintRow, out), CaseLoader()
    known = {row.name for row in rows}
    until = None if minutes is None else time.time() + 60 * minutes
    with tempfile.TemporaryDirectory() as temporary:
        folder = temporary if cache_dir is None else str(cache_dir)
        batches: list[list[str]] = [[one] for one in selectors or ()]
        left = [seed for seed in range(*(seeds or (0, 0))) if f"fuzz[{seed}]" not in known]
        for start in range(0, len(left), _BATCH):
            path = Path(folder) / "programs" / f"programs_{left[start]}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            programs = list(map(draw_program, left[start : start + _BATCH]))
            path.write_text(render_case_file(programs, "Programs.", reference=False), encoding="utf-8")
            batches.append([str(path)])
        for batch in batches:
            if until is not None and time.time() >= until:
                break
            for row in judge_files(batch, Path(folder), loader):
                append_row(out, row)
                rows.append(row)
                typer.echo(f"{row.name} {row.claims} {len(row.refuted)} {row.reason}", err=True)
    typer.echo("\n".join(render(rows)))


if __name__ == "__main__":
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    sys.exit(app())
