"""The cases of a run on the GPUs of this machine."""

from collections.abc import Iterator

from ligerdiag.api.options import CheckOptions
from ligerdiag.api.run import Key, Run
from ligerdiag.compile.cache import Cache
from ligerdiag.device_cases import run_judged_cases
from ligerdiag.outcomes import DeviceRun
from ligerdiag.replay.plan import ALONE_SECONDS
from ligerdiag.replay.service import ReplayOptions
from ligerdiag.report.model import OnProgress

DRAWS = 3
"""Different draws of the arguments that a device runs; one, where replaying them takes long."""
FULL_TIMEOUT = 1800.0
"""Seconds that a case may take on the device and its comparison, when bounds are lifted."""


def make_replay_options(options: CheckOptions) -> ReplayOptions:
    """Returns the options of a replay that these options ask for."""
    return ReplayOptions(
        bounds=options.bounds,
        timeout=options.timeout,
        jobs=options.jobs,
        rows=options.rows,
        refresh=options.refresh,
    )


def run_on_devices(run: Run, options: CheckOptions, cache: Cache, tell: OnProgress) -> Iterator[tuple[Key, DeviceRun]]:
    """Runs each case once, for however many targets it was compiled."""
    cases = {(task.case.source, task.case.id): task.case for task in run.tasks}
    large = {
        key[:2]
        for key, report in run.reports.items()
        if report.replay is not None and report.replay.estimated_seconds > ALONE_SECONDS
    }
    runs = run_judged_cases(
        list(cases.values()),
        cache=cache,
        effects=options.effects,
        replay=make_replay_options(options) if options.replay else None,
        timeout=max(options.timeout, FULL_TIMEOUT if options.bounds.full else 0.0),
        draws=lambda case: 1 if (case.source, case.id) in large else DRAWS,
        tell=tell,
    )
    for case, device in runs:
        for key in run.order:
            if key[:2] == (case.source, case.id) and key in run.reports:
                yield key, device
