"""`bisect`: what makes a case right or wrong."""

from collections.abc import Callable
from dataclasses import replace
from typing import assert_never

from ligerdiag.api.options import ignore_progress
from ligerdiag.bisect.laboratory import Laboratory
from ligerdiag.bisect.options import BisectOptions
from ligerdiag.compile.cache import Cache
from ligerdiag.compile.job import CaseSpec
from ligerdiag.compile.target import Target, load_target
from ligerdiag.compile.toolchain_table import DEFAULT
from ligerdiag.device.service import require_gpu
from ligerdiag.ending import RunEnded, work_until_ended
from ligerdiag.errors import InputError
from ligerdiag.report.bisection import Axis, Bisection
from ligerdiag.report.model import OnProgress

type BisectAxis = Callable[[Laboratory, CaseSpec, Target, BisectOptions], Bisection]

MOST_CASES = 50
DEFAULT_TARGETS = ("h100",)


def bisect(options: BisectOptions, on_progress: OnProgress | None = None) -> tuple[Bisection, ...]:
    """Bisects every selected case, on every target where the axis is not the targets themselves.

    Raises InputError or CaseError when the request cannot be met: a selector that means nothing, an axis that does not
    apply to the case. After Ctrl-C, SIGTERM or the time limit the last bisection holds what was known of it; RunEnded when
    nothing was.
    """
    _refuse_idle_options(options)
    if options.device:
        require_gpu(options.toolchain)
    targets = [load_target(name) for name in dict.fromkeys(options.targets or DEFAULT_TARGETS)]
    if options.axis is Axis.TARGETS:
        targets = targets[:1]
    run = _find_axis(options.axis)
    done: list[Bisection] = []
    laboratory = Laboratory(
        cache=Cache(options.cache_directory),
        jobs=options.jobs,
        timeout=options.timeout,
        tell=on_progress or ignore_progress,
        declared=options.effects,
    )
    with laboratory, work_until_ended() as work:
        for case in _choose_cases(laboratory, options):
            for target in targets:
                laboratory.forget_draft()
                done.append(run(laboratory, case, target, options))
                laboratory.forget_draft()
    if work.ending is not None:
        if laboratory.draft is None and not done:
            raise RunEnded(work.ending)
        last = done.pop() if laboratory.draft is None else laboratory.finish(laboratory.draft)
        done.append(replace(last, interrupted=True, ended_by=work.ending))
    return tuple(done)


def _refuse_idle_options(options: BisectOptions) -> None:
    """Raises InputError for options that the axis would ignore: the user meant something else."""
    if options.device and options.axis is not Axis.MITIGATION:
        raise InputError(f"a device is timed over `mitigation`, not over `{options.axis.value}`")
    if (options.toolchains or options.create) and options.axis is not Axis.TOOLCHAINS:
        raise InputError(f"toolchains to compare are for `toolchains`, not for `{options.axis.value}`: name one to use")
    if options.toolchain != DEFAULT and options.axis is Axis.TOOLCHAINS:
        raise InputError("expected the toolchains to compare, and not one to use")


def _choose_cases(laboratory: Laboratory, options: BisectOptions) -> tuple[CaseSpec, ...]:
    cases = laboratory.discover(options.selectors)
    if not options.selectors or len(cases) > MOST_CASES:
        raise InputError(f"expected the id of a case, such as `{cases[0].id}`, but got {len(cases)} cases")
    return cases


def _find_axis(axis: Axis) -> BisectAxis:
    """Returns the function that varies along it; only that axis is imported."""
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
