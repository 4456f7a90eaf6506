"""SNAPSHOTS"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from ligerdiag.analysis.context import Context, compute_context
from ligerdiag.analysis.verdict.comparison import Standing, choose_verdict, find_standing
from ligerdiag.analysis.writes import find_hidden_operands
from ligerdiag.artifacts.artifact import Artifact
from ligerdiag.bisect.synthetic_schedules import SchedulePolicy, inline_calls, schedule_module
from ligerdiag.effects.isolated import CallEffectsReader
from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.aliasing import build_must_alias_buffers
from ligerdiag.hlo.buffers import BufferAssignment
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.parse import load_hlo, pause_collector
from ligerdiag.hlo.shape import iterate_leaves
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


_SHARDY = "xla.sdy."


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Judgement:
    """One module, judged."""

    module: HloModule
    """As it was judged: calls are inlined where XLA has not done so yet."""
    standings: Mapping[str, Standing]
    """By output name."""
    synthetic: Mapping[SchedulePolicy, Context]
    """WRITTEN is there only if it was needed."""
    scheduled: Context | None
    """Under the module's own schedule."""

    @property
    def verdicts(self) -> Mapping[str, Verdict]:
        """By output name: of the schedule; where there is none, fresh if forced, latent if open, else what it is if lost."""
        if self.scheduled is not None:
            return {name: output.verdict for name, output in self.scheduled.verdicts.outputs.items()}
        early = self.synthetic[SchedulePolicy.EARLY].verdicts.outputs
        return {name: choose_verdict(standing, early[name].verdict) for name, standing in self.standings.items()}


def judge_module(
    *,
    program: HloModule,
    module: HloModule,
    buffers: BufferAssignment | None,
    effects: CallEffectsReader,
    output_names: tuple[str, ...],
) -> Judgement | None:
    """Judge one module between two passes against the program as written; None where it is not judged.

    buffers: XLA's own, for the module's own schedule. Raises ArtifactError as `inline_calls`.
    """
    if _has_boundary(module):
        return None
    effects.read(program)
    effects.read(module)
    if not module.is_scheduled:
        module = inline_calls(module)
    shared = build_must_alias_buffers(module)

    def judge(judged: HloModule, stored: BufferAssignment) -> Context:
        return compute_context(
            program=program,
            optimized=judged,
            buffers=stored,
            effects_of=effects.find,
            output_names=output_names,
            traced_calls=(),
        )

    def is_kernel(call: HloInstruction) -> bool:
        return bool(find_hidden_operands(call, effects.find(call)))

    synthetic = {
        policy: judge(schedule_module(module, is_kernel, policy), shared)
        for policy in (SchedulePolicy.LATE, SchedulePolicy.EARLY)
    }
    if Standing.LOST in _compare(synthetic).values():
        policy = SchedulePolicy.WRITTEN
        synthetic[policy] = judge(schedule_module(module, is_kernel, policy), shared)
    return Judgement(
        module=module,
        standings=_compare(synthetic),
        synthetic=synthetic,
        scheduled=judge(module, shared if buffers is None else buffers) if module.is_scheduled else None,
    )


def _has_boundary(module: HloModule) -> bool:
    return any(
        call.proto.custom_call_target.startswith(_SHARDY) and sum(1 for _ in iterate_leaves(call.shape)) > 1
        for _, call in module.iterate_custom_calls()
    )


def _compare(synthetic: Mapping[SchedulePolicy, Context]) -> Mapping[str, Standing]:
    names = next(iter(synthetic.values())).verdicts.outputs
    return {
        name: find_standing({context.verdicts.outputs[name].verdict for context in synthetic.values()})
        for name in names
    }


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
