"""Trials of `bisect`: each compiles a case in one way; the rows of the answer's table show the outcomes.

`TrialRunner` compiles trials with several workers at a time and judges them as they arrive.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import batched
from pathlib import Path
from threading import Lock
from time import perf_counter
from typing import Self

from ligerdiag.artifacts.artifact import Artifact
from ligerdiag.artifacts.cache import Cache
from ligerdiag.compile.compile_service import (
    CompileResult,
    compile_cases,
    discover_cases,
    make_toolchain_step,
)
from ligerdiag.device.device_service import require_gpu, run_judged_cases
from ligerdiag.effects.declared import DeclaredEffects, parse_declared
from ligerdiag.errors import LigerdiagError, WorkerImportError, describe_error
from ligerdiag.inspection.compilation import inspect_artifact, open_readers
from ligerdiag.model.findings import VERDICT_ORDER, DeviceRun, Finding, Replay, ReplayState, Verdict
from ligerdiag.model.jobs import CaseSpec, Variation
from ligerdiag.model.report import Coverage, OnProgress, Progress, WrittenOperand
from ligerdiag.replay.replay_service import ReplayOptions, ReplayTask, replay_artifacts
from ligerdiag.replay.replay_worker import Bounds
from ligerdiag.report.agreement import Agreement, compute_opaque_agreements, compute_replay_agreements
from ligerdiag.report.comparisons import Axis, Bisection, BisectionRow
from ligerdiag.report.terminal.diagnostics import render_agreement_word
from ligerdiag.report.terminal.spans import compute_text
from ligerdiag.rules.registry import get_rule
from ligerdiag.rules.undefined_outputs import compute_replayed_verdicts
from ligerdiag.run_options import BisectOptions
from ligerdiag.text import join_words
from ligerdiag.toolchains.environments import provide_toolchain
from ligerdiag.toolchains.gpu_targets import Target, describe_dropped_fields
from ligerdiag.toolchains.toolchain import Toolchain, current_toolchain
from ligerdiag.toolchains.toolchain_table import DEFAULT
from ligerdiag.workers.pool import Pool, count_cores
from ligerdiag.workers.templates import Templates


@dataclass(slots=True, kw_only=True)
class Draft:
    """A bisection in progress, of one case along one axis such as flags. The search adds its results to the lists at
    once, so that Ctrl-C does not lose them.
    """

    case_id: str
    target: str
    toolchain: str
    axis: Axis
    columns: tuple[str, ...] = ()
    rows: list[BisectionRow] = field(default_factory=list[BisectionRow])
    answers: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])
    is_unsettled: bool = False
    trials_before: int = 0
    """Number of trials that the runner had made before this bisection began, for other cases or targets."""
    compiled_before: int = 0
    started: float = field(default_factory=perf_counter)

    def finish(self, *, trials: int, compiled: int, interrupted: bool = False) -> Bisection:
        """Returns a Bisection with all results so far. trials: how many trials the runner has made since it started.
        compiled: how many of these it compiled; the rest came from the cache.
        """
        return Bisection(
            case_id=self.case_id,
            target=self.target,
            toolchain=self.toolchain,
            axis=self.axis,
            columns=self.columns,
            rows=tuple(self.rows),
            answers=tuple(self.answers),
            notes=tuple(self.notes),
            trials=trials - self.trials_before,
            compiled=compiled - self.compiled_before,
            seconds=perf_counter() - self.started,
            interrupted=interrupted,
            is_unsettled=self.is_unsettled,
        )


type TrialKey = tuple[object, ...]

_WORDS: Mapping[Verdict, str] = {
    Verdict.FRESH: "right",
    Verdict.LATENT: "latent",
    Verdict.UNKNOWN: "unknown",
    Verdict.CLOBBERED: "wrong",
    Verdict.STALE: "wrong",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One way to compile a case: for one target, with one toolchain, with flags and with ties. A tie forces a read to come
    after a kernel.
    """

    case: CaseSpec
    target: Target
    toolchain: str = DEFAULT
    variation: Variation = field(default_factory=Variation)

    @property
    def key(self) -> TrialKey:
        """Returns a key of the trial. Trials that compile one case in one way have equal keys."""
        flags = tuple(sorted((name, repr(value)) for name, value in self.variation.flags.items()))
        ties = tuple(sorted(set(self.variation.ties)))
        how = (ties, self.variation.by_barrier, tuple(sorted(set(self.variation.declared))))
        return self.case.source, self.case.id, self.target.name, self.target.sha256, self.toolchain, flags, how


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The verdicts on the result of one trial, or the reason why there are none."""

    trial: Trial
    outputs: Mapping[str, Verdict] = field(default_factory=dict[str, Verdict])
    """Maps each output name to its verdict, in the program's order; empty when there is an error."""
    findings: tuple[Finding, ...] = ()
    coverage: Coverage | None = None
    written: tuple[WrittenOperand, ...] = ()
    """The operands that kernels overwrite without XLA's knowledge, with their calls."""
    meant: Mapping[str, int] = field(default_factory=dict[str, int])
    """Maps each output name to the hidden writes on which the output should depend, as a bit set; see `Inspection.meant`."""
    artifact: Artifact | None = None
    error: str = ""
    """One line that says what failed; empty if the trial was compiled and judged."""
    exit_code: int = 0
    """The exit code for the error: 2 for wrong input, 3 for a program that could not be analysed."""
    state_notes: tuple[str, ...] = ()
    """As in `CompileAnswer`."""
    cached: bool = False
    """Whether the artifact came from the cache."""
    seconds: float = 0.0
    """Seconds that compiling (0 if cached) and judging took."""

    @property
    def is_right(self) -> bool:
        """Returns whether every output is fresh (right, and not only by luck)."""
        return self.word == "right"

    def wants(self, meant: Mapping[str, int]) -> bool:
        """Returns whether every output should see at least certain hidden writes. meant: maps the name of an output to these
        writes, as a bit set.
        """
        return not any(wanted & ~self.meant.get(name, 0) for name, wanted in meant.items())

    @property
    def word(self) -> str:
        """Returns one word for the worst output: `right`, `latent`, `unknown` or `wrong`. It is `unknown` without
        outputs.
        """
        if self.error or not self.outputs:
            return "unknown"
        return _WORDS[max(self.outputs.values(), key=VERDICT_ORDER.index)]


class Lanes:
    """Worker pools that several threads share. Each pool has one worker, belongs to one toolchain, and is used by one
    thread at a time.

    Two threads cannot use a pool at once, because it remembers the hashes of files.
    """

    def __init__(self, cache_root: Path, timeout: float, templates: Templates) -> None:
        """timeout: seconds that one job of a worker may take. templates: processes with JAX and Triton already imported,
        from which workers are forked.
        """
        self._templates = templates
        self._cache_root = cache_root
        self._timeout = timeout
        self._lock = Lock()
        self._all: list[Pool] = []
        self._idle: dict[str, list[Pool]] = {}
        self._is_closed = False

    @contextmanager
    def take(self, toolchain: Toolchain) -> Generator[Pool]:
        """Yields a pool for a toolchain. Only this thread uses the pool in the `with` block. Raises LigerdiagError after
        `close`.
        """
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
        """Ends all workers, including busy ones."""
        with self._lock:
            self._is_closed = True
        for pool in self._all:
            pool.close()


class TrialRunner:
    """Compiles, judges and replays trials, each at most once. It is a context manager, and ends its workers when the `with`
    block ends.

    A trial that an earlier run compiled comes from the cache. If a trial fails, its outcome has the error.
    """

    def __init__(
        self,
        *,
        cache: Cache,
        jobs: int | None = None,
        timeout: float = 300.0,
        report_progress: OnProgress,
        declared: Sequence[DeclaredEffects] = (),
    ) -> None:
        """jobs: number of workers, by default one per core. timeout: seconds that one trial may take. declared: effects
        that the user declares, as for `inspect_artifact`.
        """
        self.cache = cache
        self.jobs = jobs or count_cores()
        self.timeout = timeout
        self.report_progress = report_progress
        self.best = ""
        """The best result of a search so far, in a few words, for the progress line."""
        self.compiled = 0
        """Number of trials that were compiled because they were not in the cache."""
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
        """Returns the number of different trials so far, compiled or found in the cache."""
        return len(self._outcomes)

    def discover(self, selectors: Sequence[str]) -> tuple[CaseSpec, ...]:
        """Returns the cases that the selectors name, found with the default toolchain. Raises the errors of
        `discover_cases`.
        """
        with self._lanes.take(self.find_toolchain(DEFAULT)) as pool:
            return discover_cases(selectors, pool=pool, report_progress=self._relay)

    def find_toolchain(self, name: str) -> Toolchain:
        """Returns the toolchain called `name`. Makes its environment if it does not exist yet. Raises the errors of
        `provide_toolchain`.
        """
        if name not in self._toolchains:
            self._toolchains[name] = provide_toolchain(name, self.cache, self._report_step)
        return self._toolchains[name]

    def _find_other_readers(self, name: str) -> Pool | None:
        return None if name == current_toolchain().name else self.find_readers(name)

    def find_readers(self, name: str) -> Pool:
        """Returns the workers that read kernels with the Triton of the toolchain `name`."""
        if name not in self._readers:
            self._readers[name] = open_readers(self.find_toolchain(name), self.cache, self._templates)
        return self._readers[name]

    def open_draft(
        self, case: CaseSpec, target: str, axis: Axis, *, toolchain: str = DEFAULT, columns: tuple[str, ...] = ()
    ) -> Draft:
        """Returns a new draft, to which a bisection adds its rows and answers. After Ctrl-C, the draft becomes the result.

        axis: the kind of bisection, such as passes or flags. columns: titles of the columns that it adds to the answer's
        table.
        """
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
        """Forgets the draft (the bisection in progress) before the next bisection begins."""
        self.draft = None
        self.best = ""

    def finish(self, draft: Draft, *, interrupted: bool = False) -> Bisection:
        """Returns the draft (the results so far) as a Bisection. It has the numbers of trials that were made and compiled
        since the draft was opened.
        """
        missed = [
            f"not covered: {note}"
            for outcome in self._outcomes.values()
            if outcome.trial.case.id == draft.case_id
            for note in outcome.state_notes
        ]
        draft.notes[:] = dict.fromkeys((*draft.notes, *self._list_dropped(draft), *missed))
        return draft.finish(trials=self.trials, compiled=self.compiled, interrupted=interrupted)

    def _list_dropped(self, draft: Draft) -> Iterator[str]:
        """Yields a note for each target of the user's own that was compiled without fields that XLA does not know."""
        for outcome in self._outcomes.values():
            trial = outcome.trial
            if outcome.artifact is not None and trial.case.id == draft.case_id and not trial.target.is_own:
                fields = outcome.artifact.provenance.dropped_fields
                toolchain = self._toolchains.get(trial.toolchain)
                name = trial.toolchain if toolchain is None else toolchain.name
                if note := describe_dropped_fields(trial.target, name, fields):
                    yield note

    def try_one(self, trial: Trial) -> Outcome:
        return self.try_all([trial])[0]

    def try_all(self, trials: Sequence[Trial]) -> tuple[Outcome, ...]:
        """Returns the outcomes of trials, in their order. Compiles trials that have no outcome yet, several at a time.

        Raises InputError if a toolchain is not available, or if a case declares impossible effects of a kernel.
        """
        missing = {trial.key: trial for trial in trials if trial.key not in self._outcomes}
        for name in dict.fromkeys(trial.toolchain for trial in missing.values()):
            self.find_readers(name)
        done, total = len(self._outcomes), len(self._outcomes) + len(missing)
        for trial in list(missing.values())[:1]:
            self._report_trial("started", trial, done, total)
        for trial, result in self._compile(list(missing.values())):
            outcome = self._judge(trial, result)
            self._outcomes[trial.key] = outcome
            self.compiled += not outcome.cached
            done += 1
            self._report_trial("finished", trial, done, total, cached=outcome.cached)
        return tuple(self._outcomes[trial.key] for trial in trials)

    def replay(self, outcomes: Sequence[Outcome], options: ReplayOptions | None = None) -> tuple[Replay, ...]:
        """Replays the outcomes of trials. Returns the replays in the order of the outcomes. The replay of an outcome with
        an error, or without an artifact, has the state NOT_ASKED. options: None means the default bounds and the runner's
        time limit.
        """
        how = options or ReplayOptions(bounds=Bounds(), timeout=self.timeout, jobs=self.jobs)
        tasks: dict[int, ReplayTask] = {}
        for number, outcome in enumerate(outcomes):
            if outcome.artifact is not None and not outcome.error:
                trial = outcome.trial
                tasks[number] = ReplayTask(case=trial.case, target=trial.target.name, artifact=outcome.artifact)
        found: dict[str, Replay] = {}
        judged = {str(task.artifact.directory): outcomes[number] for number, task in tasks.items()}
        replays = replay_artifacts(
            list(tasks.values()),
            how,
            cache=self.cache,
            toolchain=current_toolchain(),
            report_progress=self._relay,
            templates=self._templates,
            find_readers=self._find_other_readers,
        )
        for task, replay in replays:
            found[str(task.artifact.directory)] = replay
        self._replay_opaquely(list(tasks.values()), how, judged, found)
        nothing = Replay(state=ReplayState.NOT_ASKED, reason="there is no artifact to replay")
        return tuple(
            found[str(tasks[number].artifact.directory)] if number in tasks else nothing
            for number in range(len(outcomes))
        )

    def _replay_opaquely(
        self,
        tasks: Sequence[ReplayTask],
        how: ReplayOptions,
        judged: Mapping[str, Outcome],
        found: dict[str, Replay],
    ) -> None:
        """Replays with opaque functions those tasks about which their replays leave something open, and adds the results.

        judged, found: the outcomes and the replays, by the artifact's directory.
        """
        left = [task for task in tasks if _is_open(judged[place := str(task.artifact.directory)], found[place])]
        if not left:
            return
        from ligerdiag.replay.opaque_service import replay_artifacts_opaquely

        replays = replay_artifacts_opaquely(
            left,
            how,
            lambda task: (*self._declared, *parse_declared(task.case)),
            needed=True,
            cache=self.cache,
            toolchain=current_toolchain(),
            report_progress=self._relay,
            templates=self._templates,
            find_readers=self._find_other_readers,
        )
        for task, opaque in replays:
            directory = str(task.artifact.directory)
            found[directory] = replace(found[directory], opaque=opaque)

    def _compile(self, trials: Sequence[Trial]) -> Iterator[tuple[Trial, CompileResult]]:
        """Yields each trial with its compile result, as results arrive."""
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
        """Compiles one trial and returns the result; runs in a thread of the executor."""
        with self._lanes.take(self.find_toolchain(trial.toolchain)) as pool:
            try:
                (result,) = compile_cases([trial.case], [trial.target], pool=pool, variation=trial.variation)
            except WorkerImportError as error:  # other trials have other toolchains
                return CompileResult(
                    case=trial.case, target=trial.target.name, artifact=None, error=error, seconds=0.0, cached=False
                )
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
            state_notes=result.state_notes,
            cached=result.cached,
            seconds=result.seconds + perf_counter() - started,
        )

    def _relay(self, event: Progress) -> None:
        self.report_progress(replace(event, best=self.best))

    def _report_trial(self, event: str, trial: Trial, done: int, total: int, *, cached: bool = False) -> None:
        self.report_progress(
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

    def _report_step(self, step: str) -> None:
        self.report_progress(make_toolchain_step(step))


def _is_open(outcome: Outcome, replay: Replay) -> bool:
    return replay.is_open(compute_replayed_verdicts(outcome.outputs, outcome.findings, replay))


def compare_outputs(one: Mapping[str, Verdict], other: Mapping[str, Verdict]) -> tuple[str, ...]:
    """Returns a text such as "`weight` stale -> fresh" for each output whose verdict differs between two trials. Outputs
    that only one trial has are left out.
    """
    return tuple(
        f"`{name}` {one[name].value} -> {verdict.value}"
        for name, verdict in other.items()
        if name in one and one[name] is not verdict
    )


def make_row(
    outcome: Outcome,
    label: str,
    *,
    replay: Replay | None = None,
    cells: Mapping[str, str] | None = None,
    evidence: Sequence[tuple[str, str]] = (),
    is_answer: bool = False,
) -> BisectionRow:
    """Returns the row of the answer's table for one trial.

    label: the text in the row's first column. cells: the texts in the columns that this kind of bisection adds, by the
    column's title. evidence: (label, sentence) pairs to show below the table. is_answer: whether the row is an answer; if
    False, it is evidence for one.
    """
    return BisectionRow(
        label=label,
        outputs=outcome.outputs,
        cells=dict(cells or {}),
        word=outcome.word,
        error=outcome.error,
        replay=describe_replay(outcome, replay),
        evidence=tuple(evidence),
        artifact="" if outcome.artifact is None else str(outcome.artifact.directory),
        is_answer=is_answer,
    )


def describe_replay(outcome: Outcome, replay: Replay | None) -> str:
    """Returns a word or two on whether the replayed numbers agree with the verdicts, such as `agrees`, `DISAGREES`, or
    `lossy 0.25` for a relative error of 0.25. If there are no numbers, returns the reason, such as `too large`. Returns
    '' if there is no replay, or if the trial ended with an error.
    """
    if replay is None or outcome.error:
        return ""
    return compute_text(render_agreement_word(outcome.outputs, replay, outcome.findings))


def has_disagreement(outcome: Outcome, replay: Replay) -> bool:
    """Returns whether verdicts and replayed numbers contradict each other, and no finding explains the contradiction."""
    real = compute_replay_agreements(outcome.outputs, replay, outcome.findings)
    opaque = compute_opaque_agreements(outcome.outputs, replay, outcome.findings)
    return Agreement.DISAGREES in {*real.values(), *opaque.values()}


def describe_wrong(outputs: Mapping[str, Verdict]) -> str:
    """Returns a text such as "`bias` and `weight` are stale, `input` is latent". Returns '' if all outputs are fresh."""
    phrases: list[str] = []
    for verdict in reversed(VERDICT_ORDER):
        names = [f"`{name}`" for name, found in outputs.items() if found is verdict]
        if names and verdict is not Verdict.FRESH:
            phrases.append(f"{join_words(names)} {'is' if len(names) == 1 else 'are'} {verdict.value}")
    return ", ".join(phrases)


def explain_wrong(outcome: Outcome) -> tuple[str, ...]:
    """Returns one sentence for each finding that explains why an output is not fresh. If the trial ended with an error,
    returns only the error.
    """
    if outcome.error:
        return (f"because {outcome.error}",)
    sentences = [
        f"because {finding.message} ({finding.rule})"
        for finding in outcome.findings
        if get_rule(finding.rule).explains in {outcome.outputs.get(name) for name in finding.outputs} - {None}
    ]
    return tuple(dict.fromkeys(sentences))


_BUG = (
    "a verdict and the replayed numbers cannot both be right (DISAGREES): `ligerdiag check` lists the possible causes"
)


def replay_outcomes(
    runner: TrialRunner, draft: Draft, outcomes: Sequence[Outcome], options: BisectOptions | None
) -> tuple[Replay | None, ...]:
    """Replays the outcomes of trials, and returns the replays in the order of the outcomes. Returns None for every
    outcome if `options` is None, or with `--no-replay`.

    If a verdict and the replayed numbers contradict each other, the draft gets a note and becomes unsettled (exit code 3).
    """
    if options is None or not options.replay:
        return (None,) * len(outcomes)
    how = ReplayOptions(bounds=options.bounds, timeout=options.timeout, jobs=options.jobs)
    replays = runner.replay(outcomes, how)
    if any(has_disagreement(outcome, replay) for outcome, replay in zip(outcomes, replays, strict=True)):
        draft.is_unsettled = True
        draft.notes += [_BUG] if _BUG not in draft.notes else []
    return replays


ROUNDS = 2
"""Number of trials in a batch for each worker."""


def try_in_batches(runner: TrialRunner, trials: Sequence[Trial]) -> Iterator[tuple[Outcome, ...]]:
    """Tries the trials in batches. After each batch, yields all outcomes so far, in the order of the trials."""
    known: tuple[Outcome, ...] = ()
    for batch in batched(trials, ROUNDS * runner.jobs):
        known += runner.try_all(batch)
        yield known


DRAWS = 1
"""Number of sets of random arguments for a run on a device. One set is enough for the times that are measured here; `check
--device` compares the results of several.
"""


def require_device(options: BisectOptions) -> None:
    """Raises InputError if `--device` is given and there is no device. Call it before anything is compiled."""
    if options.device:
        require_gpu(options.toolchain)


def run_on_device(runner: TrialRunner, cases: Sequence[CaseSpec], options: BisectOptions) -> Mapping[str, DeviceRun]:
    """Runs cases on the device. Returns the runs by case id. If a run fails, its `error` says why."""
    how = ReplayOptions(bounds=options.bounds, timeout=options.timeout, jobs=options.jobs)
    runs = run_judged_cases(
        cases,
        cache=runner.cache,
        effects=options.effects,
        replay=how if options.replay else None,
        timeout=options.timeout,
        draws=lambda case: DRAWS,
        report_progress=runner.report_progress,
    )
    return {case.id: run for case, run in runs}
