"""Cases of an axis on the GPUs of this machine: what they compute there, and how long it takes."""

from collections.abc import Mapping, Sequence

from ligerdiag.bisect.laboratory import Laboratory
from ligerdiag.bisect.options import BisectOptions
from ligerdiag.compile.artifacts import Artifact
from ligerdiag.compile.job import CaseSpec
from ligerdiag.compile.toolchain import current_toolchain
from ligerdiag.compile.toolchain_table import DEFAULT
from ligerdiag.device.service import DeviceOptions, require_gpu, run_cases
from ligerdiag.effects.declared import parse_declared
from ligerdiag.errors import InputError
from ligerdiag.inspection import inspect_artifact
from ligerdiag.outcomes import DeviceRun
from ligerdiag.replay.service import ReplayOptions, explain_refusal
from ligerdiag.report.model import Progress

DRAWS = 1
"""Different draws of the arguments: it is times that are asked for, and `check --device` looks closer."""


def require_device(options: BisectOptions) -> None:
    """Raises InputError where `--device` is asked for and cannot be had: asked before anything is compiled."""
    if options.device and options.toolchain != DEFAULT:
        raise InputError(f"a device runs what toolchain `{DEFAULT}` compiles, not `{options.toolchain}`")
    if options.device:
        require_gpu()


def run_on_device(laboratory: Laboratory, cases: Sequence[CaseSpec], options: BisectOptions) -> Mapping[str, DeviceRun]:
    """Id to run of each case, one after another. Nothing that is wrong with one is raised: it is in its `error`."""
    cache, toolchain = laboratory.cache, current_toolchain()
    how = ReplayOptions(bounds=options.bounds, timeout=options.timeout, jobs=options.jobs)

    def judge(case: CaseSpec, artifact: Artifact) -> tuple[dict[str, str], tuple[str, ...]]:
        declared = (*options.effects, *parse_declared(case))
        found = inspect_artifact(artifact, effects_cache=cache.root / "effects", declared=declared)
        return {name: verdict.value for name, verdict in found.outputs.items()}, found.coverage.not_covered

    def refuse(artifact: Artifact) -> str:
        if not options.replay:
            return "replay was not asked for"
        return explain_refusal(artifact, how, cache=cache, toolchain=toolchain)

    def relay(event: str, case: CaseSpec, done: int, total: int) -> None:
        laboratory.tell(Progress(phase="device", event=event, done=done, total=total, case_id=case.id, target="device"))

    def draw(case: CaseSpec) -> int:
        del case
        return DRAWS

    limits = DeviceOptions(timeout=options.timeout, refuse=refuse, draws=draw)
    runs = run_cases(cases, limits, cache=cache, toolchain=toolchain, judge=judge, on_case=relay)
    return {case.id: run for case, run in runs}
