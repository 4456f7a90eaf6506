"""The state of the outputs after each pass; only changes are kept.

Every snapshot is judged, for a later pass may restore what an earlier one took away; of equal ones in a row, only the
first.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from ligerdiag.analysis.call_effects import CallEffectsReader
from ligerdiag.analysis.order_independence import Judgement, judge_module
from ligerdiag.analysis.verdict.combination import Standing
from ligerdiag.bisect.snapshots import Step, find_step, list_snapshots
from ligerdiag.compile.artifacts import Artifact
from ligerdiag.errors import ArtifactError
from ligerdiag.findings import Verdict
from ligerdiag.hlo.collector import pause_collector
from ligerdiag.hlo.module import HloModule
from ligerdiag.hlo.parse import load_hlo

type OnJudged = Callable[[int, int], None]
"""Called with the number of snapshots that are done, and of all."""

_ASSIGNED = Step(name="", pipeline="the buffer assignment", number=-1)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Moment:
    """A snapshot that differs from the one before in how some output stands."""

    step: Step | None
    """The step that made the difference; None for the program as XLA got it."""
    path: Path
    """The snapshot."""
    before: Judgement | None
    """Of the snapshot right before the step; None for the first one that was judged."""
    after: Judgement


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class History:
    """All changes of one compile."""

    moments: tuple[Moment, ...]
    """The program as XLA got it first, unless it was not judged; then what has changed, in order."""
    snapshots: int
    """Number of all snapshots, this program and the scheduled one included."""
    judged: int
    """Number of snapshots that are different, and were judged."""
    skipped: tuple[str, ...]
    """Names of those that were not judged."""

    @property
    def last(self) -> Judgement | None:
        """Returns the last judgement."""
        return self.moments[-1].after if self.moments else None


def judge_history(artifact: Artifact, effects: CallEffectsReader, on_judged: OnJudged) -> History:
    """Judges the program as XLA got it, every snapshot, and the scheduled program, in this order.

    Raises ArtifactError when a file cannot be read as what it should be.
    """
    program, _ = load_hlo(artifact.program)
    files = list(_list_files(artifact))
    moments: list[Moment] = []
    skipped: list[str] = []
    judged, digest, previous = 0, b"", None
    for number, (path, step) in enumerate(files):
        on_judged(number, len(files))
        data = sha256(path.read_bytes()).digest()
        if data == digest:
            continue
        digest = data
        judged += 1
        judgement = _judge(program, path, effects, artifact.provenance.outputs)
        if judgement is None:
            skipped.append(path.name)
            continue
        if previous is None or _summarize(previous) != _summarize(judgement):
            moments.append(Moment(step=step, path=path, before=previous, after=judgement))
        previous = judgement
    on_judged(len(files), len(files))
    return History(moments=tuple(moments), snapshots=len(files), judged=judged, skipped=tuple(skipped))


def _list_files(artifact: Artifact) -> Iterator[tuple[Path, Step | None]]:
    snapshots = list_snapshots(artifact.passes)
    yield artifact.unoptimized, None
    for position, snapshot in enumerate(snapshots):
        yield snapshot.path, find_step(snapshots, position)
    yield artifact.optimized, _ASSIGNED


def _judge(program: HloModule, path: Path, effects: CallEffectsReader, names: tuple[str, ...]) -> Judgement | None:
    module, buffers = load_hlo(path)
    try:
        with pause_collector():
            return judge_module(program=program, module=module, buffers=buffers, effects=effects, output_names=names)
    except (AssertionError, IndexError, KeyError, ValueError, RecursionError, StopIteration, ArtifactError):
        if os.environ.get("LIGERDIAG_DEBUG"):
            raise
        return None


def _summarize(judgement: Judgement) -> tuple[Mapping[str, Standing], Mapping[str, Verdict]]:
    return judgement.standings, judgement.verdicts
