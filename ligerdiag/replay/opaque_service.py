"""Replays artifacts with opaque functions in place of their custom calls, in workers, and keeps the results in the cache.

A result is kept under the artifact, the arguments, the declared effects and everything in ligerdiag that computes
numbers or effects. As with the replays of `replay_service`, equal programs with equal arguments are replayed once. If
the estimate of a replay exceeds the bounds, its most expensive loops are cut short; if that does not suffice, the
replay is refused.
"""

import json
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace

from ligerdiag.artifacts.cache import REPLAYS, Cache, get_program
from ligerdiag.codec import FieldError, encode_record, read_record
from ligerdiag.effects.declared import DeclaredEffects
from ligerdiag.effects.isolated import CallEffectsReader
from ligerdiag.errors import LigerdiagError, describe_error
from ligerdiag.model.findings import OpaqueReplay, ReplayState
from ligerdiag.model.report import OnProgress
from ligerdiag.replay.opaque_calls import OpaqueCalls
from ligerdiag.replay.opaque_plan import plan_opaquely
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
    make_event,
)
from ligerdiag.replay.replay_worker import (
    OpaqueAnswer,
    OpaqueRequest,
    compute_available_bytes,
    count_workers,
    make_opaque_job,
)
from ligerdiag.replay.runs.case_run import load_programs
from ligerdiag.toolchains.toolchain import Toolchain
from ligerdiag.workers.pool import COMPILE_WORKER, Pool, count_cores
from ligerdiag.workers.templates import Templates

_PHASE = "replay with opaque functions"

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
    """Replays tasks with opaque functions in place of custom calls. Yields each task with its result as it finishes;
    results from the cache come first. If a case fails, nothing is raised: the state and reason of its result say so.

    needed: whether to replay only programs with a call that may run as an opaque function; programs without one are
    then left out. templates, find_readers: see `replay_service.replay_artifacts`.
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
            report_progress(make_event(_PHASE, "finished", task, done, len(tasks), cached=replay.cached))
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
                report_progress(make_event(_PHASE, "started", plan.task, done, len(tasks)))
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
        """Returns a plan for the replay. The plan cuts loops short if the whole replay is too large. If no plan is
        possible, returns a record with the reason.
        """
        try:
            return self._plan(task, declared)
        except NotCoveredError as error:
            return OpaqueReplay(state=ReplayState.NOT_COVERED, reason=str(error))
        except LigerdiagError as error:
            return OpaqueReplay(state=ReplayState.FAILED, reason=describe_error(error))

    def _plan(self, task: ReplayTask, declared: Sequence[DeclaredEffects]) -> _Plan | OpaqueReplay:
        programs = load_programs(task.artifact)
        readers = self.find_readers and self.find_readers(task.artifact.provenance.toolchain)
        reader = CallEffectsReader(cache=self.cache.root / "effects", declared=declared, readers=readers)
        reader.read(programs.program, programs.optimized)
        # no record of a refusal is cached: a reader of kernels that died may read them the next time
        plan = plan_opaquely(programs, reader.find, self.options.bounds)
        if isinstance(plan, OpaqueReplay):
            return plan
        names = tuple([loop.instruction for loop in plan.cuts.loops])
        return _Plan(task=task, calls=plan.calls, seconds=plan.seconds, bytes=plan.bytes, cut=names)


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
