"""Cases on the GPUs of this machine, each judged by the artifact that the device's own compile leaves."""

from collections.abc import Callable, Iterator, Sequence

from ligerdiag.compile.artifacts import Artifact
from ligerdiag.compile.cache import Cache
from ligerdiag.compile.job import CaseSpec
from ligerdiag.compile.toolchain import current_toolchain
from ligerdiag.device.service import DeviceOptions, run_cases
from ligerdiag.effects.declared import DeclaredEffects, parse_declared
from ligerdiag.inspection import inspect_artifact
from ligerdiag.outcomes import DeviceRun
from ligerdiag.replay.service import ReplayOptions, explain_refusal
from ligerdiag.report.model import OnProgress, Progress


def run_judged_cases(
    cases: Sequence[CaseSpec],
    *,
    cache: Cache,
    effects: Sequence[DeclaredEffects],
    replay: ReplayOptions | None,
    timeout: float,
    draws: Callable[[CaseSpec], int],
    tell: OnProgress,
) -> Iterator[tuple[CaseSpec, DeviceRun]]:
    """Yields each case with its run, one after another. Nothing that is wrong with one is raised: it is in its `error`.

    effects: what is believed beside what each case declares. replay: how program order is replayed, which is what is
    right; None leaves that to the case's reference. timeout: seconds for one case. draws: how many draws of its arguments.
    """
    toolchain = current_toolchain()

    def judge(case: CaseSpec, artifact: Artifact) -> tuple[dict[str, str], tuple[str, ...]]:
        declared = (*effects, *parse_declared(case))
        found = inspect_artifact(artifact, effects_cache=cache.root / "effects", declared=declared)
        return {name: verdict.value for name, verdict in found.outputs.items()}, found.coverage.not_covered

    def refuse(artifact: Artifact) -> str:
        if replay is None:
            return "replay was not asked for"
        return explain_refusal(artifact, replay, cache=cache, toolchain=toolchain)

    def relay(event: str, case: CaseSpec, done: int, total: int) -> None:
        tell(Progress(phase="device", event=event, done=done, total=total, case_id=case.id, target="device"))

    limits = DeviceOptions(timeout=timeout, refuse=refuse, draws=draws)
    yield from run_cases(cases, limits, cache=cache, toolchain=toolchain, judge=judge, on_case=relay)
