"""Snapshots that XLA wrote between passes, in order, and the outputs' verdicts from pass to pass.

    module_0003.jit_step.0042.fusion.after_priority-fusion.before_cse.hlo.pb
    module_0003.jit_step.0073.copy-insertion.after_removing_unnecessary_copies.hlo.pb

1. A pipeline writes a file when it starts (`after_pipeline-start`) and after each pass that has changed something.
2. Pipelines are nested: a pass can run a pipeline of its own, whose files then come before that of the pass.
3. A pass that dumps its own steps writes files without `before`; there the pipeline's name is the pass.
4. Several modules may have been compiled; the program itself is the last one that XLA began.

The state of the outputs after each pass; only changes are kept.

Every snapshot is judged, for a later pass may restore what an earlier one took away; of equal ones in a row, only the
first.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from ligerdiag.analysis.verdict.comparison import Standing
from ligerdiag.artifacts.artifact import Artifact
from ligerdiag.bisect.passes.order_independence import Judgement, judge_module
from ligerdiag.effects.isolated import CallEffectsReader
from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.module import HloModule
from ligerdiag.hlo.parse import load_hlo, pause_collector
from ligerdiag.model.findings import Verdict

START = "pipeline-start"
_NAME = re.compile(
    r"(?:\d+\.)?module_(?P<module>\d+)\.(?:.*?\.)?(?P<number>\d{4,})\.(?P<pipeline>.+?)"
    r"\.after_(?P<after>.+?)(?:\.before_(?P<before>.+?))?\.hlo\.pb"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    path: Path
    module: int
    number: int
    """Counts the files of a module."""
    pipeline: str
    after: str
    """Name of the pass that has just run; `START` when the pipeline starts."""
    before: str
    """Name of the pass that comes next; empty in the middle of a pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompilerStep:
    """The work of XLA between two snapshots."""

    name: str
    """Name of the pass; empty where it was none."""
    pipeline: str
    """The pipeline that the pass is part of; where there is no pass, the pipeline that comes next."""
    number: int
    """Of the first snapshot afterwards."""
    part: str = ""
    """The part of the pass, if XLA names it."""

    @property
    def label(self) -> str:
        """Such as `algsimp in simplification`."""
        if not self.name:
            return f"before {self.pipeline}"
        return self.name if self.name == self.pipeline else f"{self.name} in {self.pipeline}"


def parse_snapshot(path: Path) -> Snapshot | None:
    """Parses the file's name; None if it is no snapshot between two passes."""
    match = _NAME.fullmatch(path.name)
    if match is None:
        return None
    return Snapshot(
        path=path,
        module=int(match["module"]),
        number=int(match["number"]),
        pipeline=match["pipeline"],
        after=match["after"],
        before=match["before"] or "",
    )


def list_snapshots(paths: Iterable[Path]) -> tuple[Snapshot, ...]:
    """Returns those of the program itself, (4), in the order in which XLA wrote them."""
    found = [snapshot for path in paths if (snapshot := parse_snapshot(path)) is not None]
    last = max((snapshot.module for snapshot in found), default=0)
    return tuple(sorted((one for one in found if one.module == last), key=lambda one: one.number))


def find_step(snapshots: Sequence[Snapshot], position: int) -> CompilerStep:
    """Returns the step of XLA from the snapshot before `position`, if there is one, to the one at `position`."""
    this = snapshots[position]
    if this.after != START:
        is_part = not this.before
        return CompilerStep(
            name=this.pipeline if is_part else this.after,
            pipeline=this.pipeline,
            number=this.number,
            part=this.after if is_part else "",
        )
    outer = _find_outer(snapshots, position)
    if outer is None:
        return CompilerStep(name="", pipeline=this.pipeline, number=this.number)
    return CompilerStep(name=outer.after, pipeline=outer.pipeline, number=this.number)


def _find_outer(snapshots: Sequence[Snapshot], position: int) -> Snapshot | None:
    """Returns the file of the pass that has run this pipeline, (2): the next one of a pipeline that began before it and
    goes on."""
    begun = {snapshot.pipeline for snapshot in snapshots[:position]} - {snapshots[position].pipeline}
    for later in snapshots[position + 1 :]:
        if later.after == START:
            begun.discard(later.pipeline)  # it begins anew
        elif later.pipeline in begun:
            return later
    return None


type OnJudged = Callable[[int, int], None]
"""Called with the number of snapshots that are done, and of all."""

_ASSIGNED = CompilerStep(name="", pipeline="the buffer assignment", number=-1)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Moment:
    """A snapshot that differs from the one before in how some output stands."""

    step: CompilerStep | None
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


def _list_files(artifact: Artifact) -> Iterator[tuple[Path, CompilerStep | None]]:
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
