"""`check`: compiles, judges, replays and runs every selected case, and compares the result with a baseline or records
one.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from time import perf_counter

from ligerdiag.api.judging import (
    Run,
    RunKey,
    expect_of,
    find_file,
    ignore_progress,
    judge_result,
    list_declared,
    list_own_flags,
    make_replay_options,
    name_source,
    refuse_source,
    run_on_devices,
)
from ligerdiag.api.last_run import RunPolicy
from ligerdiag.api.run_course import RunCourse
from ligerdiag.artifacts.cache import Cache
from ligerdiag.compile.cases.live_functions import list_own_folders, read_function_file
from ligerdiag.compile.cases.selectors import describe_files_left_out, find_root
from ligerdiag.compile.compile_service import compile_cases, discover_cases, make_toolchain_step
from ligerdiag.device.device_service import require_gpu
from ligerdiag.effects.declared import parse_declared
from ligerdiag.ending import Ending, work_until_ended
from ligerdiag.errors import InputError, LigerdiagError
from ligerdiag.inspection.compilation import open_readers
from ligerdiag.model.findings import ReplayState, SuppressionKind, Verdict
from ligerdiag.model.jobs import CaseSpec, Source, Variation
from ligerdiag.model.memory_limits import compute_figures
from ligerdiag.model.report import CaseReport, CheckReport, Identity, Inspection, OnProgress, Status
from ligerdiag.model.schedule_view import ScheduleFacts
from ligerdiag.model.tuning import TUNING_LOG
from ligerdiag.package_metadata import compute_version
from ligerdiag.replay.replay_service import FindReaders, ReplayTask, replay_artifacts
from ligerdiag.report.agreement import Agreement, compute_replay_agreements
from ligerdiag.report.allowed.known_findings import KnownFindings, identify_finding, load_known, render_known
from ligerdiag.report.allowed.suppressions import SeenScope, Suppressions, compute_scope
from ligerdiag.report.baseline import Baseline, EntryKey, load_baseline, render_baseline
from ligerdiag.report.status import (
    compute_excuse,
    conclude,
    parse_expectation,
    parse_expected_rules,
)
from ligerdiag.rules.registry import list_ids
from ligerdiag.rules.rule import RuleKind
from ligerdiag.run_options import CheckOptions
from ligerdiag.source_text import TEXTS_SUFFIX, find_usual_root, resolve_roots
from ligerdiag.text import count_of, list_first
from ligerdiag.toolchains.environments import provide_toolchain
from ligerdiag.toolchains.gpu_targets import (
    Target,
    choose_toolchain,
    describe_dropped_fields,
    list_unconfirmed,
    load_targets,
)
from ligerdiag.toolchains.toolchain import Platform, Toolchain, current_toolchain
from ligerdiag.toolchains.tuning_file import load_tuning
from ligerdiag.workers.pool import Pool
from ligerdiag.workers.templates import Templates

_SHOWN = 3


def require_distinct(cases: Sequence[CaseSpec]) -> None:
    """Raises InputError if two cases have the same id, because a baseline identifies a case by its id."""
    places: dict[str, str] = {}
    for case in cases:
        place = str(case.source)
        if case.id in places:
            both = f"`{places[case.id]}` and `{place}`"
            raise InputError(f"two cases are called `{case.id}`, in {both}: a baseline identifies a case by its id")
        places[case.id] = place


def compute_facts(report: CaseReport) -> ScheduleFacts:
    """Returns those facts of a case's report that a baseline records."""
    memory = None if report.memory is None else compute_figures(report.memory)
    return ScheduleFacts(outputs=report.outputs, neighbourhoods=report.neighbourhoods, memory=memory)


def find_recorded(baseline: Baseline | None, identity: Identity, toolchain: str) -> ScheduleFacts | None:
    """Returns the baseline's entry for one compile, or None if there is no baseline or no such entry.

    identity: the case and the target of the compile.
    """
    return baseline.entries.get(_make_key(identity, toolchain)) if baseline is not None else None


def list_baseline_notes(
    baseline: Baseline, path: Path, cases: Sequence[CaseReport], options: CheckOptions, versions: dict[str, str]
) -> Iterator[str]:
    """Yields one-line notes on how the whole run compares with the baseline.

    path: the file of the baseline. versions: the version of each package in this run, by its name.
    """
    keys = {_make_key(case, options.toolchain): case for case in cases}
    compared = [case for key, case in keys.items() if key in baseline.entries and case.status is not Status.ERROR]
    drifted = [case for case in compared if any(finding.rule in list_ids(RuleKind.DRIFT) for finding in case.findings)]
    yield f"{len(drifted)} of {count_of(len(compared), 'compile')} drifted from the baseline `{path}`"
    recorded = baseline.toolchains.get(options.toolchain, {})
    others = [name for name in sorted({*recorded, *versions}) if recorded.get(name) != versions.get(name)]
    if recorded and others:
        was, now = (", ".join(f"{name} {them.get(name, 'absent')}" for name in others) for them in (recorded, versions))
        yield f"the baseline was recorded with {was}; this run has {now}"
    if baseline.ligerdiag != compute_version():
        yield f"the baseline was recorded by ligerdiag {baseline.ligerdiag}; this is {compute_version()}"
    new = [key for key in keys if key not in baseline.entries]
    if new:
        yield f"not in the baseline, so not compared with it: {_list(new)}; `--record {path}` adds them"
    bare = [key for key, case in keys.items() if case.memory is not None and _lacks_memory(baseline, key)]
    if bare:
        yield f"recorded without memory, so memory was not compared: {_list(bare)}; record the baseline again"
    targets = {case.target for case in cases}
    rest = [k for k in baseline.entries if k not in keys and k.toolchain == options.toolchain and k.target in targets]
    if rest:
        yield f"in the baseline and not in this run, because not selected or gone: {_list(rest)}"


def _lacks_memory(baseline: Baseline, key: EntryKey) -> bool:
    return key in baseline.entries and baseline.entries[key].memory is None


def render_record(report: CheckReport, options: CheckOptions, path: Path) -> str:
    """Returns the text of a new baseline.

    It has the compiles of this run. If there is a baseline at `path`, it also has all compiles there that this run does
    not repeat. Raises InputError if the file at `path` is no baseline.
    """
    name = _choose_toolchain(options, load_targets(options.targets))
    newer = Baseline(
        ligerdiag=compute_version(),
        toolchains={name: report.versions},
        entries={_make_key(case, name): compute_facts(case) for case in list_recordable(report)},
    )
    return render_baseline(load_baseline(path).join(newer) if path.exists() else newer)


def render_known_findings(report: CheckReport, path: Path, date: str) -> str:
    """Returns the text of a file that records the findings of this run as known.

    For cases that this run has not analysed, the text keeps the entries of the file at `path`, if there is such a file.
    Raises InputError if that file has other contents. date: as YYYY-MM-DD.
    """
    found = [
        identify_finding(case.id, case.target, finding)
        for case in report.cases
        for finding in case.findings
        if not compute_excuse(case, finding)
        or (finding.suppressed is not None and finding.suppressed.kind is SuppressionKind.KNOWN)
    ]
    return render_known(found, _list_analysed(report.cases), load_known(path) if path.exists() else None, date)


def _list_analysed(cases: Sequence[CaseReport]) -> frozenset[tuple[str, str]]:
    """Returns case and target of each report that could be analysed."""
    return frozenset((case.id, case.target) for case in cases if case.status not in (Status.ERROR, Status.NOT_CHECKED))


def list_recordable(report: CheckReport) -> tuple[CaseReport, ...]:
    """Returns the cases that could be analysed. A baseline can record only these."""
    return tuple(case for case in report.cases if case.status is not Status.ERROR)


def _make_key(case: CaseReport | Identity, toolchain: str) -> EntryKey:
    return EntryKey(case=case.id, target=case.target, toolchain=toolchain)


def _list(keys: Sequence[EntryKey]) -> str:
    return list_first([f"`{key.case}` on {key.target}" for key in sorted(keys)], _SHOWN)


def check(options: CheckOptions, on_progress: OnProgress | None = None, policy: RunPolicy | None = None) -> CheckReport:
    """Compiles, judges and replays every selected case on every target, and returns the report.

    policy: how the run chooses among the selected cases and when it stops; with a policy, the results are stored for the
    next run in this folder. None runs all cases and stores nothing.

    If one case fails, this raises nothing, and the report has the error of the case. Raises InputError or CaseError if
    the whole request fails: for a selector that matches nothing, an unknown target, or a case file that cannot be
    imported and is the only file. If there are several files, such a file gets a report instead.

    A run may end early: after Ctrl-C, SIGTERM, the time limit (see `ending`) or a stop at the first unexpected case. The
    report then has the results so far, and says for every case which steps were not done.
    """
    started = perf_counter()
    report_progress = on_progress or ignore_progress

    if options.device:
        require_gpu(options.toolchain)
    baseline = load_baseline(options.baseline) if options.baseline is not None else None
    targets = load_targets(options.targets)
    options = replace(options, toolchain=_choose_toolchain(options, targets))
    cache = Cache(options.cache_directory)
    tuning = None
    if options.autotune_results is not None:
        tuning = load_tuning(options.autotune_results, targets, cache.root)
    toolchain = provide_toolchain(options.toolchain, cache, lambda step: report_progress(make_toolchain_step(step)))
    usual_root = find_usual_root(Path.cwd())
    roots = None if options.source_roots is None else resolve_roots(options.source_roots)
    run = Run()
    known = load_known(options.known) if options.known is not None else KnownFindings()
    suppressions = Suppressions(options.suppress, known=known)

    course = RunCourse(
        run=run,
        options=options,
        toolchain=toolchain.name,
        policy=policy,
        known=known,
        find_recorded=lambda identity: find_recorded(baseline, identity, options.toolchain),
        list_roots=lambda source: _list_roots(source, usual_root) if roots is None else roots,
    )
    course.load(cache)
    options = course.options = replace(options, selectors=course.find_selectors())
    with work_until_ended() as work, Templates() as templates:
        _compile(
            course,
            options,
            targets,
            Variation(tuning=tuning),
            cache=cache,
            toolchain=toolchain,
            templates=templates,
            report_progress=report_progress,
        )
        if options.replay:
            _replay(
                course, options, cache=cache, toolchain=toolchain, templates=templates, report_progress=report_progress
            )
        for key, device in run_on_devices(run, options, cache, report_progress) if options.device else ():
            run.devices[key] = device
            if course.is_last(key):
                break
    ending = course.finish(work.ending)
    interrupted = ending is not None
    concluded = [(key[0], course.conclude(key, suppressions)) for key in run.order if key in run.judged]
    course.remember(cache, concluded)
    cases = tuple(report for _, report in concluded)
    judged = {case.target for case in cases if case.outputs}
    notes = list_unconfirmed(one.name for one in targets if one.platform is Platform.ROCM and one.name in judged)
    notes += list_declared((*options.effects, *(one for task in run.tasks for one in parse_declared(task.case))))
    notes += list_own_flags(task.case for task in run.tasks) + (() if tuning is None else tuning.notes)
    notes += describe_files_left_out(options.selectors, Path.cwd())
    dropped = _list_dropped(run.tasks, targets, toolchain.name)
    notes += tuple(line for target, line in dropped if not target.is_own)
    if baseline is not None and options.baseline is not None and not interrupted:
        notes += tuple(list_baseline_notes(baseline, options.baseline, cases, options, dict(toolchain.versions)))
    gone = known.list_gone(_list_analysed(cases))
    counted = [(case.id, case.target, one) for case in cases for one in case.findings if not compute_excuse(case, one)]
    notes += known.describe_other_targets(counted)
    if gone and not interrupted:
        notes += (f"{count_of(len(gone), 'finding')} of `{known.where}` are gone: `--record-known` drops them",)
    scope = SeenScope()
    if not interrupted and not run.is_partial:
        scope = compute_scope(
            options.selectors,
            Path.cwd(),
            concluded,
            targets=options.targets,
            usual_targets=options.usual_targets,
        )
    return CheckReport(
        cases=cases,
        targets=tuple(target.name for target in targets),
        toolchain=toolchain.name,
        versions=toolchain.versions,
        is_other_toolchain=not toolchain.is_own,
        seconds=perf_counter() - started,
        interrupted=interrupted,
        ended_by=ending or Ending.INTERRUPT,
        notes=notes,
        selected=run.selected,
        printed=tuple(run.printed.items()),
        dropped_fields=tuple(line for target, line in dropped if target.is_own),
        unused_suppressions=suppressions.list_unused(cases, scope),
    )


def _choose_toolchain(options: CheckOptions, targets: Sequence[Target]) -> str:
    """Returns the name of the toolchain to compile with; only the one that the user names can run on a device."""
    return options.toolchain if options.device else choose_toolchain(options.toolchain, targets)


def _list_dropped(
    tasks: Sequence[ReplayTask], targets: Sequence[Target], toolchain: str
) -> tuple[tuple[Target, str], ...]:
    """Returns a pair (target, a line that names the fields) for each target that has fields which XLA does not know.
    tasks: the compiled cases; their artifacts record these fields.
    """
    fields = {task.target: task.artifact.provenance.dropped_fields for task in tasks}
    lines = [(target, describe_dropped_fields(target, toolchain, fields.get(target.name, ()))) for target in targets]
    return tuple((target, line) for target, line in lines if line)


def _compile(
    course: RunCourse,
    options: CheckOptions,
    targets: Sequence[Target],
    variation: Variation,
    *,
    cache: Cache,
    toolchain: Toolchain,
    templates: Templates,
    report_progress: OnProgress,
) -> None:
    """Compiles and judges on every target the selected cases that the run takes (`RunCourse.choose`), and adds the
    results to the run.

    variation: the choices of XLA's autotuner with which to compile, if there are any. templates: processes with JAX and
    Triton already imported, from which workers are forked.
    """
    run = course.run
    with (
        Pool(
            cache=cache,
            toolchain=toolchain,
            jobs=options.jobs,
            timeout=options.timeout,
            templates=templates,
            environment=None if variation.tuning is None else TUNING_LOG,
        ) as pool,
        open_readers(toolchain, cache, templates) as readers,
    ):
        broken: list[tuple[Source, LigerdiagError]] = []

        def add_broken(source: Source, error: LigerdiagError) -> None:
            error.file = find_file(source)
            broken.append((source, error))

        cases = discover_cases(
            options.selectors,
            pool=pool,
            refresh=options.refresh,
            report_progress=report_progress,
            on_broken=add_broken,
            on_printed=lambda source, text: run.printed.update({name_source(source): text}),
        )
        cases = tuple(expect_of(case, toolchain) for case in cases)
        is_compared = options.record or options.baseline is not None
        if is_compared:
            require_distinct(cases)
        is_alone = len({case.source for case in cases}) + len(broken) == 1
        for case in cases:
            try:
                _require_expectation(case)
                parse_declared(case)
            except LigerdiagError as error:
                add_broken(case.source, error)
                if is_alone:
                    raise
        unreadable = {source for source, _ in broken}
        cases = course.choose(
            tuple(case for case in cases if case.source not in unreadable), [target.name for target in targets]
        )
        run.cases = {(case.source, case.id): case for case in cases}
        run.order = tuple((case.source, case.id, target.name) for case in cases for target in targets)
        for source, error in broken:
            for target in targets:
                key = (source, "", target.name)
                run.order += () if key in run.judged else (key,)
                run.judged[key] = refuse_source(name_source(source), target.name, toolchain.name, error, source)
                run.printed |= {name_source(source): error.printed} if error.printed else {}
        if any(course.is_last(key) for key in tuple(run.judged)):
            return
        with closing(
            compile_cases(
                cases,
                targets,
                pool=pool,
                variation=variation,
                refresh=options.refresh,
                report_progress=report_progress,
            )
        ) as results:
            for result in results:
                key = (result.case.source, result.case.id, result.target)
                declared = (*options.effects, *parse_declared(result.case))
                judged = judge_result(
                    result, toolchain.name, cache, declared, readers, neighbourhoods=is_compared, view=options.view
                )
                run.judged[key] = judged
                if result.artifact is not None and isinstance(judged.result, Inspection):
                    run.tasks.append(ReplayTask(case=result.case, target=result.target, artifact=result.artifact))
                if course.is_last(key):
                    return


def _replay(
    course: RunCourse,
    options: CheckOptions,
    *,
    cache: Cache,
    toolchain: Toolchain,
    templates: Templates,
    report_progress: OnProgress,
) -> None:
    """Replays the cases that were judged, and adds the results to the run."""
    run = course.run
    with (
        open_readers(toolchain, cache, templates) as readers,
        closing(
            replay_artifacts(
                run.list_tasks(),
                make_replay_options(options),
                cache=cache,
                toolchain=current_toolchain(),
                report_progress=report_progress,
                templates=templates,
                find_readers=None if toolchain.is_own else lambda _: readers,
            )
        ) as replays,
    ):
        for task, replay in replays:
            if course.is_last(run.add_replay(task, replay)):
                break
        _replay_partly(
            course,
            options,
            cache=cache,
            templates=templates,
            report_progress=report_progress,
            find_readers=None if toolchain.is_own else lambda _: readers,
        )
        _replay_opaquely(
            course,
            options,
            cache=cache,
            templates=templates,
            report_progress=report_progress,
            find_readers=None if toolchain.is_own else lambda _: readers,
        )


def _replay_partly(
    course: RunCourse,
    options: CheckOptions,
    *,
    cache: Cache,
    templates: Templates,
    report_progress: OnProgress,
    find_readers: FindReaders | None,
) -> None:
    """Compares outputs that miss some hidden writes and see others with what they would be if they missed only those, and
    adds the numbers to the replays of their cases.
    """
    tasks = course.run.list_partial_tasks()
    if not tasks:
        return
    from ligerdiag.replay.partial_service import compare_artifacts_partly

    found = compare_artifacts_partly(
        tasks,
        make_replay_options(options),
        cache=cache,
        report_progress=report_progress,
        templates=templates,
        find_readers=find_readers,
    )
    for one, partial in zip(tasks, found, strict=True):
        if course.is_last(course.run.add_partial(one.task, partial)):
            return


def _replay_opaquely(
    course: RunCourse,
    options: CheckOptions,
    *,
    cache: Cache,
    templates: Templates,
    report_progress: OnProgress,
    find_readers: FindReaders | None,
) -> None:
    """Replays cases with opaque functions in place of their custom calls, and adds the results to their replays. If the
    user asked for it, these are all cases; otherwise, the cases that the usual replay could not decide.
    """
    run = course.run
    tasks = [
        task
        for task in run.list_tasks()
        if (key := (task.case.source, task.case.id, task.target)) in run.replays
        and (options.opaque or _is_open(run, key))
    ]
    if not tasks:
        return
    from ligerdiag.replay.opaque_service import replay_artifacts_opaquely

    with closing(
        replay_artifacts_opaquely(
            tasks,
            make_replay_options(options),
            lambda task: (*options.effects, *parse_declared(task.case)),
            needed=not options.opaque,
            cache=cache,
            toolchain=current_toolchain(),
            report_progress=report_progress,
            templates=templates,
            find_readers=find_readers,
        )
    ) as replays:
        for task, opaque in replays:
            if course.is_last(run.add_opaque(task, opaque)):
                return


def _is_open(run: Run, key: RunKey) -> bool:
    """Returns whether the replay of a judged case leaves something open, or its numbers say nothing about any output that
    has a verdict.
    """
    judged, replay, verdicts = run.judged[key].result, run.replays[key], run.find_verdicts(key)
    if replay.is_open(verdicts):
        return True
    if replay.state is not ReplayState.DONE or not isinstance(judged, Inspection):
        return False
    outputs = {name: one for name, one in verdicts.items() if one is not Verdict.UNKNOWN}
    agreements = compute_replay_agreements(outputs, replay, judged.findings)
    return bool(outputs) and all(one is Agreement.SILENT for one in agreements.values())


def _list_roots(source: Source, usual: str) -> tuple[str, ...]:
    """Returns the folders below which the report of a case may read source files.

    These are `usual`, the folder that the source's imports start from, the user's folders on Python's import path, and
    the folder with the texts of a live function's code that is in no file.
    """
    folders = [Path(source.root), *map(Path, list_own_folders())]
    if source.pickled:
        surroundings, _ = read_function_file(Path(source.pickled))
        folders += [find_root(Path(file)) for file in surroundings.files]
        folders.append(Path(source.pickled).with_suffix(TEXTS_SUFFIX))
    return tuple(dict.fromkeys((usual, *(str(folder.resolve()) for folder in folders))))


def describe_refusal(options: CheckOptions, error: LigerdiagError) -> CheckReport:
    """Returns a report that has only the error with which the whole request failed.

    Programs that read reports can then read the error, too.
    """
    what = ", ".join(str(selector) for selector in options.selectors) or "cases"
    cases = tuple(conclude(refuse_source(what, target, options.toolchain, error)) for target in options.targets)
    return CheckReport(cases=cases, targets=options.targets, toolchain=options.toolchain)


def _require_expectation(case: CaseSpec) -> None:
    """Raises InputError, with the name of the file, if the case's expectation cannot be parsed."""
    try:
        parse_expectation(case.expected)
        parse_expected_rules(case.expected_rules, beside=case.expected)
    except InputError as error:
        raise InputError(f"`{case.source}`: case `{case.id}`: {error}") from error
