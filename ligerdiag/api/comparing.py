"""`bisect` and `diff`: find out why a case is right or wrong, and list the differences between two compiles of a
case.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import assert_never

from ligerdiag.api.checking import check
from ligerdiag.api.inspecting import inspect
from ligerdiag.api.judging import ignore_progress
from ligerdiag.artifacts.cache import Cache
from ligerdiag.bisect.trials import TrialRunner
from ligerdiag.device.device_service import require_gpu
from ligerdiag.ending import RunEnded, work_until_ended
from ligerdiag.errors import InputError
from ligerdiag.model.jobs import CaseSpec
from ligerdiag.model.report import CaseReport, CheckReport, OnProgress
from ligerdiag.report.comparisons import Axis, Bisection, ComparedSide, Difference, DifferenceReport, compute_difference
from ligerdiag.run_options import BisectOptions, CheckOptions, DiffOptions, InspectOptions
from ligerdiag.text import list_first
from ligerdiag.toolchains.gpu_targets import Target, load_target, load_targets
from ligerdiag.toolchains.toolchain_table import DEFAULT

type BisectAxis = Callable[[TrialRunner, CaseSpec, Target, BisectOptions], Bisection]

MOST_CASES = 50
DEFAULT_TARGETS = ("h100",)


def bisect(options: BisectOptions, on_progress: OnProgress | None = None) -> tuple[Bisection, ...]:
    """Bisects every selected case on every target, and returns the results.

    A bisection compiles a case in several ways and compares the verdicts. Along the axis `targets`, each case is bisected
    once.

    Raises InputError or CaseError if the request fails: for a selector that matches nothing, or an axis that does not
    apply to the case. After Ctrl-C, SIGTERM or the time limit the last bisection has only the results until then. Raises
    RunEnded if such an event comes before the first result.
    """
    _refuse_idle_options(options)
    if options.device:
        require_gpu(options.toolchain)
    targets = [load_target(name) for name in dict.fromkeys(options.targets or DEFAULT_TARGETS)]
    if options.axis is Axis.TARGETS:
        targets = targets[:1]
    run = _find_axis(options.axis)
    done: list[Bisection] = []
    runner = TrialRunner(
        cache=Cache(options.cache_directory),
        jobs=options.jobs,
        timeout=options.timeout,
        report_progress=on_progress or ignore_progress,
        declared=options.effects,
    )
    with runner, work_until_ended() as work:
        for case in _choose_cases(runner, options):
            for target in targets:
                runner.forget_draft()
                done.append(run(runner, case, target, options))
                runner.forget_draft()
    if work.ending is not None:
        if runner.draft is None and not done:
            raise RunEnded(work.ending)
        last = done.pop() if runner.draft is None else runner.finish(runner.draft)
        done.append(replace(last, interrupted=True, ended_by=work.ending))
    return tuple(done)


def _refuse_idle_options(options: BisectOptions) -> None:
    """Raises InputError for options that have no effect with this axis: the user meant something else."""
    if options.device and options.axis is not Axis.MITIGATION:
        raise InputError(f"`--device` works only with `--over mitigation`, not with `--over {options.axis.value}`")
    if (options.toolchains or options.create) and options.axis is not Axis.TOOLCHAINS:
        raise InputError(
            f"`--toolchains` and `--create` work only with `--over toolchains`, not with `--over {options.axis.value}`:"
            " choose a single toolchain with `--toolchain`"
        )
    if options.toolchain != DEFAULT and options.axis is Axis.TOOLCHAINS:
        raise InputError(
            "`--over toolchains` compares several toolchains: name them with `--toolchains`, not with `--toolchain`"
        )


def _choose_cases(runner: TrialRunner, options: BisectOptions) -> tuple[CaseSpec, ...]:
    cases = runner.discover(options.selectors)
    if not options.selectors or len(cases) > MOST_CASES:
        raise InputError(f"expected the id of a case, such as `{cases[0].id}`, but got {len(cases)} cases")
    return cases


def _find_axis(axis: Axis) -> BisectAxis:
    """Returns the function that bisects along this axis (the property of the compile that is varied). Imports the
    module of this axis only.
    """
    match axis:
        case Axis.MITIGATION:
            from ligerdiag.bisect.mitigation import bisect_mitigation as run
        case Axis.EDGES:
            from ligerdiag.bisect.edges import bisect_edges as run
        case Axis.PASSES:
            from ligerdiag.bisect.passes import bisect_passes as run
        case Axis.FLAGS:
            from ligerdiag.bisect.flags import bisect_flags as run
        case Axis.TARGETS:
            from ligerdiag.bisect.targets import bisect_targets as run
        case Axis.TOOLCHAINS:
            from ligerdiag.bisect.toolchains import bisect_toolchains as run
        case _:
            assert_never(axis)
    return run


_REMEDY = "`ligerdiag diff A B` for two artifacts or dumps, `ligerdiag diff CASE --targets a100,h100` for two compiles"
_SHOWN = 5


def diff(options: DiffOptions, on_progress: OnProgress | None = None) -> DifferenceReport:
    """Compares two compiles of each case, or the modules at two paths, and returns the differences.

    If one compile fails, this raises nothing, and the result has the error of the compile. Raises InputError if the whole
    request fails: for a case or a path that does not exist, or a path that does not have exactly one module with custom
    calls.
    """
    started = perf_counter()
    _require_comparable(options)
    if options.targets or options.toolchains:
        differences, reports = _compare_cases(options, on_progress)
    else:
        differences, reports = _compare_paths(options, on_progress)
    return DifferenceReport(
        differences=differences,
        notes=tuple(dict.fromkeys(note for report in reports for note in report.notes)),
        seconds=perf_counter() - started,
        interrupted=any(report.interrupted for report in reports),
    )


def _require_comparable(options: DiffOptions) -> None:
    for noun, names in (("target", options.targets), ("toolchain", options.toolchains)):
        if len(names) > 2:
            raise InputError(f"expected two {noun}s to compare but got {len(names)}: {', '.join(names)}")
    if len(load_targets(options.targets)) < len(options.targets):
        raise InputError(f"expected two different targets to compare but got {', '.join(options.targets)}")
    if options.targets or options.toolchains:
        if max(len(options.targets), len(options.toolchains)) < 2:
            raise InputError("expected two different targets or toolchains to compare, such as `--targets a100,h100`")
        if not options.subjects:
            raise InputError(f"no case is given to compile twice: use {_REMEDY}")
        if options.module:
            raise InputError("`--module` chooses among the modules of a dump, but the subject is a case")
    elif len(options.subjects) != 2:
        raise InputError(f"expected two things to compare but got {len(options.subjects)}: use {_REMEDY}")
    else:
        for subject in options.subjects:
            if not Path(subject).exists():
                raise InputError(f"there is no artifact or dump `{subject}`: use {_REMEDY}")


def _compare_cases(
    options: DiffOptions, on_progress: OnProgress | None
) -> tuple[tuple[Difference, ...], tuple[CheckReport, ...]]:
    targets = _take_two(options.targets or ("h100",))
    toolchains = _take_two(options.toolchains or (DEFAULT,))

    def run(toolchain: str, targets: Sequence[str]) -> CheckReport:
        how = CheckOptions(
            selectors=options.subjects,
            targets=tuple(dict.fromkeys(targets)),
            toolchain=toolchain,
            jobs=options.jobs,
            cache_directory=options.cache_directory,
            effects=options.effects,
            replay=False,
            record=True,
        )
        return check(how if options.timeout is None else replace(how, timeout=options.timeout), on_progress)

    if toolchains[0] == toolchains[1]:
        first = second = run(toolchains[0], targets)
        reports = (first,)
    else:
        first = run(toolchains[0], targets[:1])
        if first.interrupted:
            return (), (first,)
        second = run(toolchains[1], targets[1:])
        reports = (first, second)
    labels = _make_labels(targets, toolchains)
    found = tuple(_pair_cases((first, second), labels))
    return found, reports


def _pair_cases(reports: Sequence[CheckReport], labels: Sequence[str]) -> Iterator[Difference]:
    """Yields the difference for each case that both compiles have; the first report's first target is compared with the
    second report's last one.
    """
    sides: list[dict[str, CaseReport]] = []
    for report, name in zip(reports, (reports[0].targets[0], reports[1].targets[-1]), strict=True):
        sides.append({case.id: case for case in report.cases if case.target == name})
    for case_id, one in sides[0].items():
        if case_id in sides[1]:
            first, second = (
                ComparedSide(label=labels[0], report=one),
                ComparedSide(label=labels[1], report=sides[1][case_id]),
            )
            yield compute_difference(case_id, first, second)


def _make_labels(targets: Sequence[str], toolchains: Sequence[str]) -> tuple[str, str]:
    """Returns a label for each of the two compiles: its target if the targets differ, and its toolchain if the
    toolchains differ.
    """

    def label(number: int) -> str:
        words = [targets[number]] if targets[0] != targets[1] else []
        return " by ".join([*words, *([toolchains[number]] if toolchains[0] != toolchains[1] else [])])

    return label(0), label(1)


def _take_two(names: Sequence[str]) -> tuple[str, str]:
    return names[0], names[-1]


def _compare_paths(
    options: DiffOptions, on_progress: OnProgress | None
) -> tuple[tuple[Difference, ...], tuple[CheckReport, ...]]:
    reports: list[CheckReport] = []
    for subject in options.subjects:
        how = InspectOptions(
            paths=(Path(subject),),
            module=options.module,
            timeout=options.timeout,
            cache_directory=options.cache_directory,
            effects=options.effects,
            neighbourhoods=True,
            notes=options.notes,
            replay=False,
        )
        report = inspect(how, on_progress)
        if report.interrupted:
            return (), (report,)
        reports.append(report)
        if len(report.cases) != 1:
            raise InputError(_describe_many(subject, report))
    first, second = (
        ComparedSide(label=letter, report=report.cases[0]) for letter, report in zip(("A", "B"), reports, strict=True)
    )
    return (compute_difference(" and ".join(options.subjects), first, second),), tuple(reports)


def _describe_many(subject: str, report: CheckReport) -> str:
    if not report.cases:
        return f"expected a module with custom calls in `{subject}` but there is none"
    shown = list_first([f"`{case.id}`" for case in report.cases], _SHOWN)
    return f"expected one module with custom calls in `{subject}` but got {shown}: choose one with --module"
