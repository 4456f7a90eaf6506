"""Reads the snapshots that XLA wrote between passes, and judges the outputs after each pass.

    module_0003.jit_step.0042.fusion.after_priority-fusion.before_cse.hlo.pb
    module_0003.jit_step.0073.copy-insertion.after_removing_unnecessary_copies.hlo.pb

A pipeline writes a file when it starts (`after_pipeline-start`) and after each pass that changed something. Pipelines
are nested: a pass can run a pipeline, whose files then come before that of the pass. A pass that dumps its own steps
writes files without `before`, and the pipeline's name is that of the pass. Several modules may have been compiled; the
program is the one that XLA began last.

A module without a schedule is judged under schedules that it could have (`synthetic_schedules`); only values that XLA must
keep in the same bytes (`hlo.aliasing`) share bytes there. An output is *forced* if a path of data or control edges goes from
the write to it. It is *lost* if it is computed from something else than the kernel wrote, such as a copy, a shard or the
value before a cast. Otherwise it is *open*. A module without a buffer assignment does not show which other values XLA will
put into the same bytes.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from pathlib import Path

from ligerdiag.analysis.context import Context, compute_context
from ligerdiag.analysis.writes import find_hidden_operands
from ligerdiag.artifacts.artifact import Artifact
from ligerdiag.bisect.synthetic_schedules import SchedulePolicy, inline_calls, schedule_module
from ligerdiag.effects.isolated import CallEffectsReader
from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.aliasing import build_must_alias_buffers
from ligerdiag.hlo.buffers import BufferAssignment
from ligerdiag.hlo.custom_calls import CallTrait, is_call_with
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
    """A file with the module that XLA wrote between two passes, and the parts of its name."""

    path: Path
    module: int
    number: int
    """Number of the file among the files of the module, from 0."""
    pipeline: str
    after: str
    """Name of the pass that has just run; `START` for a snapshot at the start of a pipeline."""
    before: str
    """Name of the pass that comes next; empty in the middle of a pass."""

    @property
    def text(self) -> str:
        """Returns a text for the pass after which XLA wrote the snapshot, such as "`fusion` (pipeline `fusion`)"."""
        if self.after == START:
            return f"the work before pipeline `{self.pipeline}`"
        return f"`{self.after}` (pipeline `{self.pipeline}`)"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompilerStep:
    """The work of XLA between two snapshots: a pass, a part of a pass, or work between two passes."""

    name: str
    """Name of the pass; empty for work outside a pass."""
    pipeline: str
    """The pipeline that the pass belongs to; without a pass, the pipeline that comes next."""
    number: int
    """Number of the first snapshot after the step."""
    part: str = ""
    """If the step is only a part of a pass, and XLA gives the part a name, this name; otherwise empty."""

    @property
    def label(self) -> str:
        """Returns a text such as "algsimp in simplification"."""
        if not self.name:
            return f"before {self.pipeline}"
        return self.name if self.name == self.pipeline else f"{self.name} in {self.pipeline}"


def parse_snapshot(path: Path) -> Snapshot | None:
    """Returns the snapshot in a file, from the file's name. Returns None if the name is not that of a snapshot."""
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
    """Returns the snapshots of the program, in the order in which XLA wrote them. The program is the module that XLA began
    last.
    """
    found = [snapshot for path in paths if (snapshot := parse_snapshot(path)) is not None]
    last = max((snapshot.module for snapshot in found), default=0)
    return tuple(sorted((one for one in found if one.module == last), key=lambda one: one.number))


def find_step(snapshots: Sequence[Snapshot], position: int) -> CompilerStep:
    """Returns the step of XLA that ends with the snapshot at `position`."""
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
    """Returns the snapshot of the pass that ran the pipeline of the snapshot at `position`; None if no pass did.

    It is the next snapshot of a pipeline that began before this one and continues after it.
    """
    begun = {snapshot.pipeline for snapshot in snapshots[:position]} - {snapshots[position].pipeline}
    for later in snapshots[position + 1 :]:
        if later.after == START:
            begun.discard(later.pipeline)  # the pipeline begins anew
        elif later.pipeline in begun:
            return later
    return None


class OrderSensitivity(StrEnum):
    """Whether an output is right under every schedule that XLA may still choose, under some of them, or under none."""

    FORCED = "forced"
    """The output is fresh under each schedule."""
    OPEN = "open"
    """The output is right under some schedules: the order decides, and nothing forces it."""
    LOST = "lost"
    """The output is wrong under each schedule: no order can make it right."""
    UNKNOWN = "unknown"


def find_order_sensitivity(verdicts: set[Verdict]) -> OrderSensitivity:
    """Returns whether an output is right under all schedules, under some, or under none. verdicts: its verdicts under
    all synthetic schedules.
    """
    if verdicts == {Verdict.FRESH}:
        return OrderSensitivity.FORCED
    if any(verdict.is_right for verdict in verdicts):
        return OrderSensitivity.OPEN
    return OrderSensitivity.LOST if all(verdict.is_wrong for verdict in verdicts) else OrderSensitivity.UNKNOWN


def choose_verdict(sensitivity: OrderSensitivity, early: Verdict) -> Verdict:
    """Returns the verdict to show for an output of a module that has no schedule. early: the verdict on the output if
    kernels run as early as possible.
    """
    said = {OrderSensitivity.FORCED: Verdict.FRESH, OrderSensitivity.OPEN: Verdict.LATENT, OrderSensitivity.LOST: early}
    return said.get(sensitivity, Verdict.UNKNOWN)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Judgement:
    """The verdicts on one module. If XLA has not chosen a schedule yet, it also says whether they depend on the schedule."""

    module: HloModule
    """The judged module, with calls inlined if it had no schedule."""
    order_sensitivities: Mapping[str, OrderSensitivity]
    """Maps each output name to its order sensitivity: whether the output is right under all schedules, under some or under
    none.
    """
    synthetic: Mapping[SchedulePolicy, Context]
    """The analysis under each schedule that the module could have: always under LATE and EARLY (kernels as late or as
    early as possible), and under WRITTEN (the author's order) only if some output is wrong under both.
    """
    scheduled: Context | None
    """The analysis under the module's own schedule; None if the module has no schedule."""

    @property
    def verdicts(self) -> Mapping[str, Verdict]:
        """Returns the verdict on each output by name, under the module's own schedule. Without a schedule, an output is
        fresh if it is right under every possible one, and latent if it is right under some. If it is right under none, it
        has its verdict under EARLY, where kernels run as early as possible.
        """
        if self.scheduled is not None:
            return {name: output.verdict for name, output in self.scheduled.verdicts.outputs.items()}
        early = self.synthetic[SchedulePolicy.EARLY].verdicts.outputs
        return {
            name: choose_verdict(sensitivity, early[name].verdict)
            for name, sensitivity in self.order_sensitivities.items()
        }


def judge_module(
    *,
    program: HloModule,
    module: HloModule,
    buffers: BufferAssignment | None,
    effects: CallEffectsReader,
    output_names: tuple[str, ...],
) -> Judgement | None:
    """Judges the outputs of a module that XLA wrote between two passes. Returns None if the module cannot be judged.

    program: the program as written. buffers: XLA's buffer assignment for the module's own schedule. Raises
    ArtifactError as `inline_calls` does.

    A module cannot be judged if a custom call of Shardy around a manual computation returns several values. It is then
    unknown which result belongs to which operand.
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
    if OrderSensitivity.LOST in _compare(synthetic).values():
        policy = SchedulePolicy.WRITTEN
        synthetic[policy] = judge(schedule_module(module, is_kernel, policy), shared)
    return Judgement(
        module=module,
        order_sensitivities=_compare(synthetic),
        synthetic=synthetic,
        scheduled=judge(module, shared if buffers is None else buffers) if module.is_scheduled else None,
    )


def _has_boundary(module: HloModule) -> bool:
    return any(
        is_call_with(call, CallTrait.SHARDY) and sum(1 for _ in iterate_leaves(call.shape)) > 1
        for _, call in module.iterate_custom_calls()
    )


def _compare(synthetic: Mapping[SchedulePolicy, Context]) -> Mapping[str, OrderSensitivity]:
    names = next(iter(synthetic.values())).verdicts.outputs
    return {
        name: find_order_sensitivity({context.verdicts.outputs[name].verdict for context in synthetic.values()})
        for name in names
    }


type OnJudged = Callable[[int, int], None]
"""Called with the number of snapshots judged so far, and the number of all snapshots."""

_ASSIGNED = CompilerStep(name="", pipeline="the buffer assignment", number=-1)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SensitivityChange:
    """A change from one snapshot to the next, in an output's verdict or in its order sensitivity."""

    step: CompilerStep | None
    """The step of XLA that ends with this snapshot; None for the program as XLA got it."""
    path: Path
    """Path of the snapshot's file."""
    before: Judgement | None
    """The judgement of the module right before the step; None for the first one."""
    after: Judgement


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class History:
    """All changes of the outputs' order sensitivities and verdicts between the snapshots of one compile."""

    changes: tuple[SensitivityChange, ...]
    """The first entry is the program as XLA got it, unless it could not be analysed. The changes follow, in order."""
    snapshots: int
    """Number of snapshots, including the program as XLA got it and the scheduled one."""
    judged: int
    """Number of snapshots whose module differs from the module of the snapshot before. Each of them was judged or skipped.
    """
    skipped: tuple[str, ...]
    """Names of the files that could not be analysed."""


def judge_history(artifact: Artifact, effects: CallEffectsReader, on_judged: OnJudged) -> History:
    """Judges the program as XLA got it, every snapshot, and the scheduled program, in this order. Returns all changes.

    on_judged: called with the number of snapshots judged so far, and the number of all snapshots.

    No snapshot is left out, because a later pass may repair an output that an earlier one broke. Of equal files in a row,
    only the first is judged. Raises ArtifactError if a file cannot be read.
    """
    program, _ = load_hlo(artifact.program)
    files = list(_list_files(artifact))
    changes: list[SensitivityChange] = []
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
            changes.append(SensitivityChange(step=step, path=path, before=previous, after=judgement))
        previous = judgement
    on_judged(len(files), len(files))
    return History(changes=tuple(changes), snapshots=len(files), judged=judged, skipped=tuple(skipped))


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


def _summarize(judgement: Judgement) -> tuple[Mapping[str, OrderSensitivity], Mapping[str, Verdict]]:
    return judgement.order_sensitivities, judgement.verdicts
