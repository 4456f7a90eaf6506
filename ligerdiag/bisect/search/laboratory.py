"""Compiles, judges and replays trials, each at most once.

1. A trial that was made before is remembered; one that an earlier run made is in the cache of `compile`.
2. Each runs in a lane, a pool of one worker: a pool assumes that its toolchain does not change, and its cache remembers
   the hashes of files. Each thread takes a lane of its own and passes it on when it is done, so there are never more
   lanes of one toolchain than threads that ask for one at a time. All workers are forks of one template a toolchain.
3. Judging happens in the caller's thread, as outcomes arrive; the answers are in the order of the questions.
4. A failure of one trial is not raised: it is in its outcome.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Lock
from time import perf_counter
from types import MappingProxyType
from typing import Self

from ligerdiag.artifacts.cache import Cache
from ligerdiag.bisect.search.trial import Draft, Outcome, Trial, TrialKey
from ligerdiag.compile.service import (
    CompileResult,
    compile_cases,
    discover_cases,
    make_toolchain_step,
)
from ligerdiag.effects.declared import DeclaredEffects, parse_declared
from ligerdiag.errors import LigerdiagError, describe_error
from ligerdiag.inspection.compilation import inspect_artifact, open_readers
from ligerdiag.judgement.answers import Axis, Bisection
from ligerdiag.model.findings import Replay, ReplayState
from ligerdiag.model.jobs import CaseSpec
from ligerdiag.model.report import OnProgress, Progress
from ligerdiag.replay.replay_service import ReplayOptions, ReplayTask, replay_artifacts
from ligerdiag.replay.replay_worker import Bounds
from ligerdiag.toolchains.environments import provide_toolchain
from ligerdiag.toolchains.toolchain import Toolchain, current_toolchain
from ligerdiag.toolchains.toolchain_table import DEFAULT
from ligerdiag.workers.pool import Pool, count_cores
from ligerdiag.workers.templates import Templates


class Lanes:
    """The lanes of one cache."""

    def __init__(self, cache_root: Path, timeout: float, templates: Templates) -> None:
        """timeout: seconds for one job."""
        self._templates = templates
        self._cache_root = cache_root
        self._timeout = timeout
        self._lock = Lock()
        self._all: list[Pool] = []
        self._idle: dict[str, list[Pool]] = {}
        self._is_closed = False

    @contextmanager
    def take(self, toolchain: Toolchain) -> Generator[Pool]:
        """Takes a lane of that toolchain, exclusively for the caller. Raises LigerdiagError after `close`."""
        with self._lock:
            if self._is_closed:
                raise LigerdiagError("the workers were ended")
            idle = self._idle.setdefault(toolchain.name, [])
            if idle:
                pool = idle.pop()
            else:
                pool = Pool(
                    cache=Cache(self._cache_root),
                    toolchain=toolchain,
                    jobs=1,
                    timeout=self._timeout,
                    templates=self._templates,
                )
                self._all.append(pool)
        try:
            yield pool
        finally:
            with self._lock:
                idle.append(pool)

    def close(self) -> None:
        """Ends all workers, also busy ones."""
        with self._lock:
            self._is_closed = True
        for pool in self._all:
            pool.close()


class Laboratory:
    """Makes trials; a context manager, which ends its workers."""

    def __init__(
        self,
        *,
        cache: Cache,
        jobs: int | None = None,
        timeout: float = 300.0,
        tell: OnProgress,
        declared: Sequence[DeclaredEffects] = (),
    ) -> None:
        """jobs: workers, by default one per core. timeout: seconds for one trial. declared: see `inspect_artifact`."""
        self.cache = cache
        self.jobs = jobs or count_cores()
        self.timeout = timeout
        self.tell = tell
        self.best = ""
        """The best result of a search so far, in a few words; shown beside the progress."""
        self.compiled = 0
        """Trials that were in no cache."""
        self.draft: Draft | None = None
        """The bisection that is being made."""
        self._declared = tuple(declared)
        self._outcomes: dict[TrialKey, Outcome] = {}
        self._toolchains: dict[str, Toolchain] = {}
        self._readers: dict[str, Pool] = {}
        self._templates = Templates()
        self._lanes = Lanes(cache.root, timeout, self._templates)
        self._executor = ThreadPoolExecutor(self.jobs, thread_name_prefix="ligerdiag-lane")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._lanes.close()
        for readers in self._readers.values():
            readers.close()
        self._executor.shutdown(wait=True, cancel_futures=True)
        self._templates.close()

    @property
    def trials(self) -> int:
        """Different trials that were made, whether compiled or found in the cache."""
        return len(self._outcomes)

    @property
    def outcomes(self) -> Mapping[TrialKey, Outcome]:
        """Every trial that was made."""
        return MappingProxyType(self._outcomes)

    def discover(self, selectors: Sequence[str]) -> tuple[CaseSpec, ...]:
        """Returns the cases that the selectors mean, of the default toolchain; raises as `discover_cases` does."""
        with self._lanes.take(self.find_toolchain(DEFAULT)) as pool:
            return discover_cases(selectors, pool=pool, on_event=self._relay)

    def find_toolchain(self, name: str) -> Toolchain:
        """Returns the toolchain of that name; its environment is made where it is missing. Raises as
        `provide_toolchain` does."""
        if name not in self._toolchains:
            self._toolchains[name] = provide_toolchain(name, self.cache, self._tell_step)
        return self._toolchains[name]

    def _find_other_readers(self, name: str) -> Pool | None:
        return None if name == current_toolchain().name else self.find_readers(name)

    def find_readers(self, name: str) -> Pool:
        """Returns the workers that read kernels with the Triton of the toolchain of that name."""
        if name not in self._readers:
            self._readers[name] = open_readers(self.find_toolchain(name), self.cache, self._templates)
        return self._readers[name]

    def open_draft(
        self, case: CaseSpec, target: str, axis: Axis, *, toolchain: str = DEFAULT, columns: tuple[str, ...] = ()
    ) -> Draft:
        """Returns the draft that an axis fills; after Ctrl-C it is the result to report."""
        self.draft = Draft(
            case_id=case.id,
            target=target,
            toolchain=self.find_toolchain(toolchain).name,
            axis=axis,
            columns=columns,
            trials_before=self.trials,
            compiled_before=self.compiled,
        )
        return self.draft

    def forget_draft(self) -> None:
        """Before another bisection begins."""
        self.draft = None
        self.best = ""

    def finish(self, draft: Draft, *, interrupted: bool = False) -> Bisection:
        """Returns the bisection, with how many trials it took."""
        return draft.finish(trials=self.trials, compiled=self.compiled, interrupted=interrupted)

    def try_one(self, trial: Trial) -> Outcome:
        return self.try_all([trial])[0]

    def try_all(self, trials: Sequence[Trial]) -> tuple[Outcome, ...]:
        """Returns the outcome of each trial, in their order. Compiles those that were not tried before, several at a
        time.

        Raises InputError when a toolchain is not available, or the case declares impossible effects.
        """
        missing = {trial.key: trial for trial in trials if trial.key not in self._outcomes}
        for name in dict.fromkeys(trial.toolchain for trial in missing.values()):
            self.find_readers(name)
        done, total = len(self._outcomes), len(self._outcomes) + len(missing)
        for trial in list(missing.values())[:1]:
            self._tell_trial("started", trial, done, total)
        for trial, result in self._compile(list(missing.values())):
            outcome = self._judge(trial, result)
            self._outcomes[trial.key] = outcome
            self.compiled += not outcome.cached
            done += 1
            self._tell_trial("finished", trial, done, total, cached=outcome.cached)
        return tuple(self._outcomes[trial.key] for trial in trials)

    def replay(self, outcomes: Sequence[Outcome], options: ReplayOptions | None = None) -> tuple[Replay, ...]:
        """Returns the numbers of each outcome, in their order; an outcome without an artifact has a replay that says
        "not requested"."""
        how = options or ReplayOptions(bounds=Bounds(), timeout=self.timeout, jobs=self.jobs)
        tasks: dict[int, ReplayTask] = {}
        for number, outcome in enumerate(outcomes):
            if outcome.artifact is not None and not outcome.error:
                trial = outcome.trial
                tasks[number] = ReplayTask(case=trial.case, target=trial.target.name, artifact=outcome.artifact)
        found: dict[str, Replay] = {}
        replays = replay_artifacts(
            list(tasks.values()),
            how,
            cache=self.cache,
            toolchain=current_toolchain(),
            on_event=self._relay,
            templates=self._templates,
            find_readers=self._find_other_readers,
        )
        for task, replay in replays:
            found[str(task.artifact.directory)] = replay
        nothing = Replay(state=ReplayState.NOT_ASKED, reason="there is no artifact to replay")
        return tuple(
            found[str(tasks[number].artifact.directory)] if number in tasks else nothing
            for number in range(len(outcomes))
        )

    def _compile(self, trials: Sequence[Trial]) -> Iterator[tuple[Trial, CompileResult]]:
        """Yields each trial with its result as it comes."""
        futures: dict[Future[CompileResult], Trial] = {}
        try:
            for trial in trials:
                futures[self._executor.submit(self._compile_one, trial)] = trial
            left = set(futures)
            while left:
                finished, left = wait(left, return_when=FIRST_COMPLETED)
                for future in sorted(finished, key=lambda one: list(futures).index(one)):
                    yield futures[future], future.result()
        finally:
            for future in futures:
                future.cancel()

    def _compile_one(self, trial: Trial) -> CompileResult:
        """Runs in a thread of its own, with a lane of its own."""
        with self._lanes.take(self.find_toolchain(trial.toolchain)) as pool:
            (result,) = compile_cases([trial.case], [trial.target], pool=pool, variation=trial.variation)
            return result

    def _judge(self, trial: Trial, result: CompileResult) -> Outcome:
        started = perf_counter()
        if result.artifact is None:
            error = result.error or LigerdiagError("no artifact")
            return Outcome(trial=trial, error=describe_error(error), exit_code=error.exit_code, seconds=result.seconds)
        try:
            inspection = inspect_artifact(
                result.artifact,
                effects_cache=self.cache.root / "effects",
                declared=(*self._declared, *parse_declared(trial.case)),
                readers=self.find_readers(trial.toolchain),
            )
        except LigerdiagError as error:
            return Outcome(
                trial=trial,
                artifact=result.artifact,
                error=describe_error(error),
                exit_code=error.exit_code,
                cached=result.cached,
                seconds=result.seconds + perf_counter() - started,
            )
        return Outcome(
            trial=trial,
            outputs=inspection.outputs,
            findings=inspection.findings,
            coverage=inspection.coverage,
            written=inspection.written,
            meant=inspection.meant,
            artifact=result.artifact,
            cached=result.cached,
            seconds=result.seconds + perf_counter() - started,
        )

    def _relay(self, event: Progress) -> None:
        self.tell(replace(event, best=self.best))

    def _tell_trial(self, event: str, trial: Trial, done: int, total: int, *, cached: bool = False) -> None:
        self.tell(
            Progress(
                phase="try",
                event=event,
                done=done,
                total=total,
                case_id=trial.case.id,
                target=trial.target.name,
                cached=cached,
                best=self.best,
            )
        )

    def _tell_step(self, step: str) -> None:
        self.tell(make_toolchain_step(step))
