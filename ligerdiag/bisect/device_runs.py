"""Cases of an axis on the GPUs of this machine: what they compute there, and how long it takes."""

from collections.abc import Mapping, Sequence

from ligerdiag.bisect.laboratory import Laboratory
from ligerdiag.bisect.options import BisectOptions
from ligerdiag.compile.job import CaseSpec
from ligerdiag.device.service import require_gpu
from ligerdiag.device_cases import run_judged_cases
from ligerdiag.outcomes import DeviceRun
from ligerdiag.replay.service import ReplayOptions

DRAWS = 1
"""Number of different draws of the arguments: only times are measured here, and `check --device` looks closer."""


def require_device(options: BisectOptions) -> None:
    """Raises InputError if `--device` is given and there is no device. Called before anything is compiled."""
    if options.device:
        require_gpu(options.toolchain)


def run_on_device(laboratory: Laboratory, cases: Sequence[CaseSpec], options: BisectOptions) -> Mapping[str, DeviceRun]:
    """Id to run of each case. Nothing that is wrong with one is raised: it is in its `error`."""
    how = ReplayOptions(bounds=options.bounds, timeout=options.timeout, jobs=options.jobs)
    runs = run_judged_cases(
        cases,
        cache=laboratory.cache,
        effects=options.effects,
        replay=how if options.replay else None,
        timeout=options.timeout,
        draws=lambda case: DRAWS,
        tell=laboratory.tell,
    )
    return {case.id: run for case, run in runs}
