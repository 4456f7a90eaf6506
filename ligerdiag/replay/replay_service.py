"""Replays artifacts (the directories with the results of a compile) in workers, within the machine's memory, and keeps
the results in the cache.

The cache finds a kept result by its program, its arguments, its reference (a function of the case that computes the
outputs independently), and a hash of ligerdiag's code that computes numbers. Like every answer in the cache, a result
is stored with the sha256 of each project file that the case imported. Failures, such as the death of a worker, and
refusals for size are never kept.

Equal programs with equal arguments and references are replayed once. An artifact whose estimate exceeds the bounds is
replayed with its most expensive loops cut short (see `runs.loop_cuts`) if it then fits; otherwise it is not replayed.
The record of the replay says whether the artifact was replayed whole, with loops cut short, or not at all. Short
replays run side by side, on one core each; a longer one runs alone, on all cores. A worker that dies or takes too long
fails only its own case.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import cache as remember
from functools import partial
from importlib import metadata
from math import inf
from pathlib import Path

from ligerdiag.artifacts.artifact import PROVENANCE, Artifact, compute_file_sha256
from ligerdiag.artifacts.cache import REPLAYS, Cache, get_program
from ligerdiag.codec import FieldError, encode_record, read_object, read_record
from ligerdiag.compile.compile_service import compute_sources_sha256
from ligerdiag.effects.isolated import read_modules_elsewhere
from ligerdiag.errors import LigerdiagError, describe_error
from ligerdiag.model.findings import Replay, ReplayState
from ligerdiag.model.jobs import CaseSpec, Source
from ligerdiag.model.report import OnProgress, Progress
from ligerdiag.replay.replay_worker import (
    ALONE_SECONDS,
    Bounds,
    ReplayAnswer,
    ReplayRequest,
    compute_available_bytes,
    count_workers,
    make_replay_job,
    parse_replay,
    refuse,
    render_replay,
)
from ligerdiag.toolchains.toolchain import Toolchain, compute_important_environment
from ligerdiag.workers.pool import COMPILE_WORKER, Pool, count_cores
from ligerdiag.workers.templates import Templates

CACHED_STATES = frozenset({ReplayState.DONE, ReplayState.NOT_COVERED})
_PARTS = (
    "replay",
    "analysis",
    "effects",
    "hlo",
    "model/case.py",
    "model/findings.py",
    "compile/cases/arguments.py",
    "compile/cases/array_records.py",
    "compile/cases/known_fields.py",
    "compile/cases/live_functions.py",
    "compile/cases/plugin.py",
    "compile/cases/shardings.py",
    "artifacts/call_records.py",
)
"""Files and folders of ligerdiag whose code can change a number of a replay. Code that makes the artifact is not
listed: the artifact's own key covers it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayCost:
    """The estimated cost of a replay, as the cache stores it: wall-clock seconds and bytes of memory."""

    seconds: float
    bytes: int
    cut: tuple[str, ...] = ()
    """Names of the program's loops that this replay cuts short."""


class KeptReplays:
    """Finds and stores replays and their estimates in a cache. They belong to one toolchain, a set of packages in fixed
    versions.
    """

    def __init__(self, cache: Cache, toolchain: Toolchain) -> None:
        self._cache = cache
        self._circumstances = compute_circumstances(toolchain)

    def find(
        self, case: CaseSpec, artifact: Artifact, options: "ReplayOptions", cut: Sequence[str] = ()
    ) -> Replay | None:
        """Returns the stored replay of the case's program on the case's arguments. Returns None if the cache has none.

        options: the stored replay must have been run with the same `rows` and `orders`. cut: names of the program's
        loops that the replay cuts short.
        """
        answer = self._cache.find_answer(self._make_question(case, artifact, options, cut), REPLAYS)
        try:
            return None if answer is None else replace(parse_replay(read_object(answer, "replay")), cached=True)
        except FieldError:
            return None

    def keep(
        self,
        case: CaseSpec,
        artifact: Artifact,
        answer: ReplayAnswer,
        options: "ReplayOptions",
        cut: Sequence[str] = (),
    ) -> None:
        """Stores the replay in `answer`. A replay is not stored if it failed or was refused. It is not stored either if
        the time was up before the schedule had run in all requested orders.

        cut: names of the program's loops that the replay has cut short.
        """
        orders = answer.replay.orders
        if answer.replay.state in CACHED_STATES and not (orders is not None and orders.left_out):
            kept = {"replay": render_replay(answer.replay)}
            self._cache.keep_answer(
                self._make_question(case, artifact, options, cut), answer.dependencies, kept, REPLAYS
            )

    def find_estimates(self, artifact: Artifact, cores: int, question: str) -> tuple["ReplayCost", ...] | None:
        """Returns the stored estimates of the artifact for this number of cores. Returns None if the cache has none.

        question: `estimate` for the cost of the whole replay. `cuts` for the costs of the replay with loops cut short,
        one for each set of loops (see `list_cuts`).
        """
        answer = self._cache.find_answer(self._make_estimate_question(artifact, cores, question), REPLAYS)
        try:
            return None if answer is None else read_record(tuple[ReplayCost, ...], answer, "estimates")
        except FieldError:
            return None

    def keep_estimates(self, artifact: Artifact, cores: int, question: str, estimates: Sequence["ReplayCost"]) -> None:
        """Stores estimates of the artifact for this number of cores. question: see `find_estimates`."""
        path = artifact.directory / PROVENANCE
        kept = {"estimates": encode_record(tuple(estimates))}
        self._cache.keep_answer(
            self._make_estimate_question(artifact, cores, question),
            {str(path): compute_file_sha256(path)},
            kept,
            REPLAYS,
        )

    def _make_question(
        self, case: CaseSpec, artifact: Artifact, options: "ReplayOptions", cut: Sequence[str]
    ) -> dict[str, object]:
        key = {"artifact": get_program(artifact.provenance.key), "draws": case.draws}
        options_key = {"rows": options.rows, "orders": options.orders, "cut": list(cut)}
        return {"question": "replay", **key, **options_key, **self._circumstances}

    def _make_estimate_question(self, artifact: Artifact, cores: int, question: str) -> dict[str, object]:
        key = {"artifact": get_program(artifact.provenance.key), "cores": cores}
        return {"question": question, **key, **self._circumstances}


def compute_circumstances(toolchain: Toolchain) -> dict[str, object]:
    """Returns all that can change the numbers of a replay, apart from the program and its arguments. The keys of the
    cache contain it.
    """
    return {
        "fingerprint": compute_replay_fingerprint(),
        "versions": {**toolchain.versions, **_compute_versions()},
        "environment": compute_important_environment(),
    }


@remember
def compute_replay_fingerprint() -> str:
    """Returns the sha256 of all source files of ligerdiag that can change a number of a replay."""
    return compute_sources_sha256(_PARTS)


def _compute_versions() -> Mapping[str, str]:
    return {package: metadata.version(package) for package in ("numpy", "ml-dtypes")}


REPLAY_WORKER = "ligerdiag.replay.replay_worker"
OVERRUN_FACTOR = 20.0
"""A replay without bounds, or a replay of a dump, is ended after this multiple of its estimated seconds."""
ORDERS_SHARE = 0.5
"""Share of a case's timeout; a replay that has taken this long runs the schedule in no further order."""
SLACK_BYTES = 4 << 30
"""Bytes that a worker may take beyond twice the estimate of its largest case."""

type FindReaders = Callable[[str], Pool | None]
"""A function from a toolchain's name to workers that parse kernels with that toolchain's Triton; it returns None if
ligerdiag's own Triton can parse them.
"""
type ReplayKey = tuple[str, str]
"""(the program's part of an artifact's key, `CaseSpec.draws`): tasks with equal keys have equal replays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayTask:
    """A replay to run: a case, its target, and the artifact of compiling the case for this target."""

    case: CaseSpec
    target: str
    artifact: Artifact


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """The options that all replays of a run share."""

    bounds: Bounds
    timeout: float
    """Seconds after which the replay of a case is ended. If the bounds are lifted (`--full`), a replay may also take
    `OVERRUN_FACTOR` times its estimate, if that is more.
    """
    jobs: int | None = None
    """Cores to use; None means all."""
    rows: bool = False
    orders: int = 0
    """Number of other legal orders of its instructions in which each schedule runs, too."""
    refresh: bool = False
    """Whether to replay each case again even if the cache has its replay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    seconds: float
    bytes: int
    alone: bool
    cut: tuple[str, ...] = ()
    """Names of the loops to cut short."""


def replay_artifacts(
    tasks: Sequence[ReplayTask],
    options: ReplayOptions,
    *,
    cache: Cache,
    toolchain: Toolchain,
    report_progress: OnProgress,
    templates: Templates | None = None,
    find_readers: FindReaders | None = None,
) -> Generator[tuple[ReplayTask, Replay]]:
    """Replays each task and yields (task, replay) as its replay finishes. Replays from the cache come first. If a case
    fails, nothing is raised: the state and reason of its replay say so.

    templates: the preloaded processes from which the run's workers are forked; None starts new ones for the replays.
    find_readers: returns the workers that parse a toolchain's kernels with that toolchain's own Triton; None if
    ligerdiag's Triton parses all kernels.
    """
    groups: dict[ReplayKey, list[ReplayTask]] = {}
    for task in tasks:
        groups.setdefault(_compute_key(task), []).append(task)
    cache.forget_hashes()
    results = KeptReplays(cache, toolchain)
    phase = f"replay in {options.orders} orders" if options.orders else "replay"
    done = 0
    firsts = [members[0] for members in groups.values()]
    for step in _replay_each(
        firsts, options, cache, results, toolchain=toolchain, templates=templates, find_readers=find_readers
    ):
        if isinstance(step, ReplayTask):
            report_progress(make_event(phase, "started", step, done, len(tasks)))
            continue
        first, replay = step
        for task in groups[_compute_key(first)]:
            done += 1
            report_progress(make_event(phase, "finished", task, done, len(tasks), cached=replay.cached))
            yield task, replay


def _replay_each(
    tasks: Sequence[ReplayTask],
    options: ReplayOptions,
    cache: Cache,
    results: KeptReplays,
    *,
    toolchain: Toolchain,
    templates: Templates | None,
    find_readers: FindReaders | None,
) -> Iterator[ReplayTask | tuple[ReplayTask, Replay]]:
    """Yields each task when its replay starts, and (task, replay) when it ends."""
    cores = options.jobs or count_cores()
    planned: list[tuple[ReplayTask, _Plan]] = []
    for task in tasks:
        found = None if options.refresh else results.find(task.case, task.artifact, options)
        step = found or _plan(task.artifact, options, results)
        if isinstance(step, _Plan) and step.cut and not options.refresh:
            step = results.find(task.case, task.artifact, options, step.cut) or step
        if isinstance(step, Replay):
            yield task, step
        else:
            planned.append((task, step))
    sources = {source: number for number, source in enumerate(dict.fromkeys(task.case.source for task in tasks))}
    planned.sort(key=lambda one: (sources[one[0].case.source], one[0].case.draws))
    beside = [(task, plan) for task, plan in planned if not plan.alone]
    alone = [(task, plan) for task, plan in planned if plan.alone]
    workers = count_workers([plan.bytes for _, plan in beside], cores, compute_available_bytes()) if beside else 1
    for plans, jobs, threads in ((beside, workers, 1), (alone, 1, cores)):
        if not plans:
            continue
        limit = 2 * max(plan.bytes for _, plan in plans) + SLACK_BYTES
        with Pool(
            cache=cache,
            toolchain=toolchain,
            jobs=jobs,
            timeout=options.timeout,
            memory_limit=limit,
            module=REPLAY_WORKER,
            environment=compute_environment(threads),
            templates=templates,
            template=COMPILE_WORKER,
        ) as pool:
            yield from _run(
                plans, pool, options, results, partial(read_kernel_modules, cache=cache, find_readers=find_readers)
            )


def explain_refusal(artifact: Artifact, options: ReplayOptions, *, cache: Cache, toolchain: Toolchain) -> str:
    """Returns the reason why the whole artifact cannot be replayed, such as `too large: estimated 2 min, ...`. Returns
    an empty string if it can.
    """
    plan = _plan_whole(artifact, options, KeptReplays(cache, toolchain))
    return "" if isinstance(plan, _Plan) else f"{plan.state.value}: {plan.reason}"


def compute_environment(threads: int) -> dict[str, str]:
    """Returns environment variables for a replay worker. They have JAX run on the CPU and give NumPy's products this
    number of threads. They override the variables of a compile worker.
    """
    numbers = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    return {"JAX_PLATFORMS": "cpu", **numbers}


def read_kernel_modules(artifact: Artifact, *, cache: Cache, find_readers: FindReaders | None) -> Mapping[str, Path]:
    """Maps the sha256 of each kernel's Triton IR to a file with its parsed operations. The result is empty if
    ligerdiag's own Triton parses the kernels, because `find_readers` is None or returns None.

    find_readers: returns the workers that parse a toolchain's kernels with that toolchain's own Triton.
    """
    readers = find_readers and find_readers(artifact.provenance.toolchain)
    if readers is None:
        return {}
    from ligerdiag.hlo.parse import load_hlo
    from ligerdiag.replay.runs.launch import list_modules

    paths = [path for path in (artifact.as_written, artifact.optimized) if path.stat().st_size]
    sources = [source for path in paths for source in list_modules(load_hlo(path)[0])]
    return read_modules_elsewhere(sources, cache.root / "effects", readers)


def _run(
    plans: Sequence[tuple[ReplayTask, _Plan]],
    pool: Pool,
    options: ReplayOptions,
    results: KeptReplays,
    read_modules: Callable[[Artifact], Mapping[str, Path]],
) -> Iterator[ReplayTask | tuple[ReplayTask, Replay]]:
    jobs = [
        make_replay_job(
            ReplayRequest(
                source=task.case.source,
                case_id=task.case.id,
                artifact=str(task.artifact.directory),
                rows=options.rows,
                cut=plan.cut,
                orders=options.orders,
                orders_seconds=inf if options.bounds.full else ORDERS_SHARE * options.timeout,
                modules=read_modules(task.artifact),
            ),
            max(options.timeout, OVERRUN_FACTOR * plan.seconds) if options.bounds.full else options.timeout,
        )
        for task, plan in plans
    ]
    groups = group_jobs([(task.case, plan.seconds) for task, plan in plans], pool.jobs)
    for number, future in pool.run_all(jobs, groups):
        task, plan = plans[number]
        if future is None:
            yield task
            continue
        yield task, _finish(task, plan, future, options, results)


def group_jobs(jobs: Sequence[tuple[CaseSpec, float]], workers: int) -> list[list[int]]:
    """Divides replays into groups, each for one worker, and returns the positions in `jobs` of each group's replays.
    The group with the longest estimated time comes first.

    All cases of a source form one group. A worker that runs cases with equal random arguments one after the other draws
    the arguments, multiplies them and runs the kernels only once. If one large group would keep a worker busy while
    other workers have nothing left to do, it is divided: cases with equal arguments stay together.

    jobs: for each replay its case and its estimated seconds. workers: number of workers.
    """
    sources: dict[Source, dict[str, list[int]]] = {}
    for number, (case, _) in enumerate(jobs):
        sources.setdefault(case.source, {}).setdefault(case.draws, []).append(number)

    def add_up(group: Sequence[int]) -> float:
        return sum(jobs[number][1] for number in group)

    share = add_up(range(len(jobs))) / max(workers, 1)
    groups: list[list[int]] = []
    for draws in sources.values():
        whole = [number for group in draws.values() for number in group]
        groups += [whole] if add_up(whole) <= share else draws.values()
    return sorted(groups, key=add_up, reverse=True)


def _finish(
    task: ReplayTask, plan: _Plan, future: Future[ReplayAnswer], options: ReplayOptions, results: KeptReplays
) -> Replay:
    estimate = {"estimated_seconds": plan.seconds, "estimated_bytes": plan.bytes}
    try:
        answer = future.result()
    except LigerdiagError as error:
        return replace(Replay(state=ReplayState.FAILED, reason=describe_error(error)), **estimate)
    answer = replace(answer, replay=replace(answer.replay, **estimate))
    results.keep(task.case, task.artifact, answer, options, plan.cut)
    return answer.replay


def _plan(artifact: Artifact, options: ReplayOptions, results: KeptReplays) -> _Plan | Replay:
    """Returns a plan for replaying the artifact; the plan cuts loops short if the whole replay is too large. If even
    that is too large, returns a record of the refusal.
    """
    whole = _plan_whole(artifact, options, results)
    if isinstance(whole, _Plan) or whole.state is not ReplayState.TOO_LARGE or options.bounds.full:
        return whole
    available, cores = compute_available_bytes(), options.jobs or count_cores()
    try:
        for one in _estimate(artifact, 1, results, "cuts"):
            alone, cost = one.seconds > ALONE_SECONDS, one
            if alone and cores > 1:
                cost = next(two for two in _estimate(artifact, cores, results, "cuts") if two.cut == one.cut)
            if refuse(cost.seconds, cost.bytes, options.bounds, available) is None:
                return _Plan(seconds=cost.seconds, bytes=cost.bytes, alone=alone, cut=one.cut)
    except LigerdiagError as error:
        return Replay(state=ReplayState.FAILED, reason=str(error))
    return whole


def _plan_whole(artifact: Artifact, options: ReplayOptions, results: KeptReplays) -> _Plan | Replay:
    """Returns a plan for replaying the artifact with all iterations of its loops, or the record of its refusal."""
    from ligerdiag.replay.ops.scope import NotCoveredError

    cores = options.jobs or count_cores()
    try:
        (cost,) = _estimate(artifact, 1, results, "estimate")
        alone = cost.seconds > ALONE_SECONDS
        if alone and cores > 1:
            (cost,) = _estimate(artifact, cores, results, "estimate")
    except NotCoveredError as error:
        return Replay(state=ReplayState.NOT_COVERED, reason=str(error))
    except LigerdiagError as error:
        return Replay(state=ReplayState.FAILED, reason=str(error))
    refused = refuse(cost.seconds, cost.bytes, options.bounds, compute_available_bytes())
    return refused or _Plan(seconds=cost.seconds, bytes=cost.bytes, alone=alone)


def _estimate(artifact: Artifact, cores: int, results: KeptReplays, question: str) -> tuple[ReplayCost, ...]:
    """Returns the cost of the whole replay (question `estimate`), or of each way of cutting loops short (question
    `cuts`).

    Costs come from the cache, or are estimated and stored there.
    """
    found = results.find_estimates(artifact, cores, question)
    if found is None:
        from ligerdiag.replay.estimate import estimate_artifact, estimate_cuts

        if question == "cuts":
            each = estimate_cuts(artifact, cores)
            found = tuple([
                ReplayCost(seconds=cost.seconds, bytes=cost.bytes, cut=tuple([loop.instruction for loop in cuts.loops]))
                for cuts, cost in each
            ])  # fmt: skip
        else:
            cost = estimate_artifact(artifact, cores)
            found = (ReplayCost(seconds=cost.seconds, bytes=cost.bytes),)
        results.keep_estimates(artifact, cores, question, found)
    return found


def _compute_key(task: ReplayTask) -> ReplayKey:
    return get_program(task.artifact.provenance.key), task.case.draws


def make_event(phase: str, event: str, task: ReplayTask, done: int, total: int, *, cached: bool = False) -> Progress:
    """Returns the event that the replay of a task has started or finished. The arguments are the fields of `Progress`."""
    return Progress(
        phase=phase, event=event, done=done, total=total, case_id=task.case.id, target=task.target, cached=cached
    )
