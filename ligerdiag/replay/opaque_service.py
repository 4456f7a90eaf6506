"""Replays artifacts with opaque functions in place of their custom calls, in workers, and keeps the results in the cache.

A result is kept under the artifact, the arguments, the declared effects and everything in ligerdiag that computes
numbers or effects. As with the replays of `replay_service`, equal programs with equal arguments are replayed once, and
one that is estimated above the bounds is replayed with its most expensive loops cut short, or refused.
"""

import json
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace

from ligerdiag.artifacts.artifact import Artifact
from ligerdiag.artifacts.cache import REPLAYS, Cache, get_program
from ligerdiag.codec import FieldError, encode_record, read_record
from ligerdiag.effects.declared import DeclaredEffects
from ligerdiag.effects.isolated import CallEffectsReader
from ligerdiag.errors import ArtifactError, LigerdiagError, describe_error
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.parse import load_hlo
from ligerdiag.model.findings import OpaqueReplay, Replay, ReplayState
from ligerdiag.model.report import OnProgress, Progress
from ligerdiag.replay.estimate import count_allocated_bytes, count_live_bytes, estimate, list_cuts
from ligerdiag.replay.opaque_calls import OpaqueCalls
from ligerdiag.replay.ops.scope import NotCoveredError
from ligerdiag.replay.replay_service import (
    CACHED_STATES,
    OVERRUN_FACTOR,
    REPLAY_WORKER,
    SLACK_BYTES,
    FindReaders,
    ReplayOptions,
    ReplayTask,
    compute_circumstances,
    compute_environment,
    group_jobs,
)
from ligerdiag.replay.replay_worker import (
    OpaqueAnswer,
    OpaqueRequest,
    compute_available_bytes,
    count_workers,
    make_opaque_job,
    refuse,
)
from ligerdiag.replay.runs.loop_cuts import NO_CUTS
from ligerdiag.replay.runs.opaque import compute_elements
from ligerdiag.replay.runs.opaque_run import list_opaque_calls
from ligerdiag.replay.runs.widening import find_scale
from ligerdiag.toolchains.toolchain import Toolchain
from ligerdiag.workers.pool import COMPILE_WORKER, Pool, count_cores
from ligerdiag.workers.templates import Templates

_SLOWER = 2.0
"""How many times longer a program takes in f64 than in its own types, mostly f32, by a cautious guess."""
_ELEMENT_SECONDS = 2e-8
"""Seconds per element of a call's operands and outputs."""

type FindDeclared = Callable[[ReplayTask], Sequence[DeclaredEffects]]
"""A function that returns the effects that the user declares for the custom calls of a task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    task: ReplayTask
    calls: OpaqueCalls
    seconds: float
    bytes: int
    cut: tuple[str, ...] = ()


def replay_artifacts_opaquely(
    tasks: Sequence[ReplayTask],
    options: ReplayOptions,
    find_declared: FindDeclared,
    *,
    needed: bool,
    cache: Cache,
    toolchain: Toolchain,
    report_progress: OnProgress,
    templates: Templates | None = None,
    find_readers: FindReaders | None = None,
) -> Generator[tuple[ReplayTask, OpaqueReplay]]:
    """Yields (task, replay with opaque functions) for each task as its replay finishes; those from the cache come first.
    If a case fails, nothing is raised: the state and reason of its replay say so.

    needed: whether the replays only make up for custom calls that the ordinary replay does not cover. Programs without
    a call that may run as an opaque function are then left out. templates, find_readers: see
    `replay_service.replay_artifacts`.
    """
    planner = _Planner(options=options, cache=cache, find_readers=find_readers)
    circumstances = compute_circumstances(toolchain)
    groups: dict[str, list[ReplayTask]] = {}
    for task in tasks:
        question = _make_question(task, find_declared(task), options) | circumstances
        groups.setdefault(json.dumps(question, sort_keys=True), []).append(task)
    done = 0
    plans: list[tuple[str, _Plan]] = []

    def finish(key: str, replay: OpaqueReplay) -> Iterator[tuple[ReplayTask, OpaqueReplay]]:
        nonlocal done
        for task in groups[key]:
            done += 1
            report_progress(_make_event("finished", task, done, len(tasks), cached=replay.cached))
            yield task, replay

    for key, (first, *_) in groups.items():
        step = (None if options.refresh else _find_kept(cache, json.loads(key))) or planner.plan(
            first, find_declared(first)
        )
        if isinstance(step, OpaqueReplay):
            yield from finish(key, step)
        elif step.calls.kernels or not needed:
            plans.append((key, step))
    if not plans:
        return
    sizes = [plan.bytes for _, plan in plans]
    with Pool(
        cache=cache,
        toolchain=toolchain,
        jobs=count_workers(sizes, options.jobs or count_cores(), compute_available_bytes()),
        timeout=options.timeout,
        memory_limit=2 * max(sizes) + SLACK_BYTES,
        module=REPLAY_WORKER,
        environment=compute_environment(1),
        templates=templates,
        template=COMPILE_WORKER,
    ) as pool:
        jobs = [make_opaque_job(_make_request(plan), _find_timeout(plan, options)) for _, plan in plans]
        turns = group_jobs([(plan.task.case, plan.seconds) for _, plan in plans], pool.jobs)
        for number, future in pool.run_all(jobs, turns):
            key, plan = plans[number]
            if future is None:
                report_progress(_make_event("started", plan.task, done, len(tasks)))
            else:
                yield from finish(key, _finish(plan, future, json.loads(key), cache))


def _make_question(task: ReplayTask, declared: Sequence[DeclaredEffects], options: ReplayOptions) -> dict[str, object]:
    return {
        "question": "opaque replay",
        "artifact": get_program(task.artifact.provenance.key),
        "draws": task.case.draws,
        "declared": [[one.name, _sort(one.writes), _sort(one.reads)] for one in declared],
        "bounds": encode_record(options.bounds),
    }


def _sort(numbers: frozenset[int] | None) -> list[int] | None:
    return None if numbers is None else sorted(numbers)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Planner:
    options: ReplayOptions
    cache: Cache
    find_readers: FindReaders | None

    def plan(self, task: ReplayTask, declared: Sequence[DeclaredEffects]) -> _Plan | OpaqueReplay:
        """Returns a plan for the replay, with loops cut short if the whole is too large, or a record that says why there
        is none.
        """
        try:
            return self._plan(task, declared)
        except NotCoveredError as error:
            return OpaqueReplay(state=ReplayState.NOT_COVERED, reason=str(error))
        except LigerdiagError as error:
            return OpaqueReplay(state=ReplayState.FAILED, reason=describe_error(error))

    def _plan(self, task: ReplayTask, declared: Sequence[DeclaredEffects]) -> _Plan | OpaqueReplay:
        artifact = task.artifact
        if not artifact.as_written.stat().st_size:
            raise NotCoveredError("a program that jaxlib could not translate as written to HLO")
        program, _ = load_hlo(artifact.as_written)
        optimized, buffers = load_hlo(artifact.optimized)
        if buffers is None:
            raise ArtifactError(f"`{artifact.optimized}` holds no buffer assignment")
        calls = self._list_calls(artifact, declared, program, optimized)
        if calls.not_covered:
            # not cached: a reader of kernels that died may read them the next time
            return OpaqueReplay(state=ReplayState.NOT_COVERED, reason=calls.not_covered, kernels=calls.kernels)
        devices, bounds = artifact.provenance.devices, self.options.bounds
        size = find_scale(optimized) * (devices * count_allocated_bytes(buffers) + count_live_bytes(program))
        ways = () if bounds.full else list_cuts(program, optimized, _compute_kernel_seconds)
        first: Replay | None = None
        for cuts in (NO_CUTS, *ways):
            cost = estimate(
                program,
                optimized,
                buffers,
                kernel_seconds=_compute_kernel_seconds,
                devices=devices,
                cores=1,
                cuts=cuts,
            )
            seconds = _SLOWER * cost.seconds
            refused = refuse(seconds, size, bounds, compute_available_bytes())
            if refused is None:
                names = tuple([loop.instruction for loop in cuts.loops])
                return _Plan(task=task, calls=calls, seconds=seconds, bytes=size, cut=names)
            first = first or refused
        assert first is not None
        return OpaqueReplay(
            state=first.state,
            reason=first.reason,
            kernels=calls.kernels,
            estimated_seconds=first.estimated_seconds,
            estimated_bytes=first.estimated_bytes,
        )

    def _list_calls(
        self, artifact: Artifact, declared: Sequence[DeclaredEffects], program: HloModule, optimized: HloModule
    ) -> OpaqueCalls:
        readers = self.find_readers and self.find_readers(artifact.provenance.toolchain)
        reader = CallEffectsReader(cache=self.cache.root / "effects", declared=declared, readers=readers)
        reader.read(program, optimized)
        return list_opaque_calls(program, optimized, reader.find)


def _compute_kernel_seconds(call: HloInstruction) -> float:
    return _ELEMENT_SECONDS * compute_elements(call)


def _make_request(plan: _Plan) -> OpaqueRequest:
    return OpaqueRequest(
        source=plan.task.case.source,
        case_id=plan.task.case.id,
        artifact=str(plan.task.artifact.directory),
        calls=plan.calls,
        cut=plan.cut,
    )


def _find_timeout(plan: _Plan, options: ReplayOptions) -> float:
    return max(options.timeout, OVERRUN_FACTOR * plan.seconds) if options.bounds.full else options.timeout


def _finish(plan: _Plan, future: Future[OpaqueAnswer], question: Mapping[str, object], cache: Cache) -> OpaqueReplay:
    try:
        answer = future.result()
    except LigerdiagError as error:
        found = OpaqueReplay(state=ReplayState.FAILED, reason=describe_error(error), kernels=plan.calls.kernels)
        return replace(found, estimated_seconds=plan.seconds, estimated_bytes=plan.bytes)
    found = replace(answer.replay, estimated_seconds=plan.seconds, estimated_bytes=plan.bytes)
    if found.state in CACHED_STATES:
        cache.keep_answer(question, answer.dependencies, {"replay": encode_record(found)}, REPLAYS)
    return found


def _find_kept(cache: Cache, question: Mapping[str, object]) -> OpaqueReplay | None:
    answer = cache.find_answer(question, REPLAYS)
    try:
        return None if answer is None else replace(read_record(OpaqueReplay, answer, "replay"), cached=True)
    except FieldError:
        return None


def _make_event(event: str, task: ReplayTask, done: int, total: int, *, cached: bool = False) -> Progress:
    return Progress(
        phase="replay with opaque functions",
        event=event,
        done=done,
        total=total,
        case_id=task.case.id,
        target=task.target,
        cached=cached,
    )
