"""The comparison worker: compares a GPU's results with program order and with the replay, on the CPU.

Program order is the run of the program as its author wrote it, in the order of the source; it gives the intended result, as
in a replay. Tensor cores round the f32 operands of a product to TF32 unless the program asks for more precision. Replay does
not imitate this, except to measure how far such roundings move an output that is neither intended nor stale. Where the
function amplifies the roundings, as sin does for large products, nothing can be said about the output. An output that agrees
with program order is also compared with the output of the case's reference, a function that computes the outputs
independently, if the case has one. If the two differ by more than the tolerance, the output is lossy: nearer to right than
to stale, but less exact than rounding explains.

Where XLA's buffer assignment contradicts its own module, as it does for some donated arguments, the schedule cannot be
replayed: the device's results are compared with program order alone.
"""

from collections.abc import Mapping, Sequence
from math import inf
from pathlib import Path

import numpy as np

from ligerdiag.artifacts.artifact import Artifact
from ligerdiag.codec import Json
from ligerdiag.device.device_jobs import (
    BADNESS,
    DEVICE_TOLERANCE,
    ComparisonAnswer,
    load_results,
    parse_comparison_request,
)
from ligerdiag.hlo.aliasing import find_buffer_fault
from ligerdiag.model.case import Case
from ligerdiag.model.findings import FAR, Attribution, DeviceOutput
from ligerdiag.model.jobs import render_answer
from ligerdiag.replay.ops.products import multiply_in_tf32
from ligerdiag.replay.ops.scope import Array, NotCoveredError
from ligerdiag.replay.runs.attribution import compare_output, compute_error, rank_error
from ligerdiag.replay.runs.case_inputs import compute_reference, draw_arrays
from ligerdiag.replay.runs.case_run import (
    CaseRuns,
    Programs,
    compute_tolerances,
    load_programs,
    replay_programs,
    run_program_order,
)
from ligerdiag.replay.runs.kernels import KernelRunner
from ligerdiag.replay.runs.rounding import judge_rounded, measure_rounding, needs_rounding
from ligerdiag.workers.loop import Answerer, serve


def compare_with_replay(case: Case, artifact: Artifact, results: Path, *, draws: int) -> ComparisonAnswer:
    """Compares a device's results with the intended results, and with those of the replayed schedule. Does so for each
    set of random arguments. The intended results come from a run in program order.

    results: folder with the device's results. draws: number of sets of arguments.
    """
    errors: dict[str, list[float]] = {}
    worst: dict[str, Attribution] = {}
    replay_errors: dict[str, float] = {}
    tolerances: dict[str, float] = {}
    distances: dict[str, float] = {}
    try:
        programs = load_programs(artifact, checks_buffers=False)
        contradicts = bool(find_buffer_fault(programs.optimized, programs.buffers))
        runner = KernelRunner()
        with np.errstate(all="ignore"):
            for draw in range(draws):
                arguments = draw_arrays(case, draw)
                runs = _run(programs, arguments, runner, schedule=not contradicts)
                if draw and runs.again:
                    break  # the first run overwrote a constant, so later runs are another program
                device = load_results(results, draw, runs.intended)
                reference: Mapping[str, Array] = {} if case.reference is None else compute_reference(case, draw)
                if not tolerances:
                    found = compute_tolerances(programs, runs.intended)
                    tolerances = {name: max(DEVICE_TOLERANCE, one) for name, one in found.items()}
                for name, array in device.items():
                    numbers = compare_output(array, runs.intended[name], runs.stale[name], tolerance=tolerances[name])
                    if needs_rounding(numbers):
                        wider = measure_rounding(
                            programs.program,
                            arguments,
                            runner,
                            runs.intended,
                            tolerances,
                            devices=programs.signature.devices,
                            multiply=multiply_in_tf32,
                        )[name]
                        widened = compare_output(array, runs.intended[name], runs.stale[name], tolerance=wider)
                        numbers = judge_rounded(numbers, widened, tolerances[name])
                    attribution = _judge_precision(numbers.attribution, array, name, reference, tolerances[name])
                    errors.setdefault(name, []).append(numbers.error)
                    distances[name] = min(distances.get(name, inf), numbers.distance)
                    worst[name] = max(worst.get(name, attribution), attribution, key=BADNESS.index)
                    if name in runs.actual:
                        replayed = compute_error(runs.actual[name][0], array)
                        replay_errors[name] = max(replay_errors.get(name, 0.0), replayed, key=rank_error)
    except NotCoveredError as error:
        return ComparisonAnswer(not_covered=str(error))
    return ComparisonAnswer(
        outputs={
            name: DeviceOutput(
                errors=tuple(found),
                attribution=worst[name],
                tolerance=tolerances[name],
                distance=distances[name],
                replay_error=replay_errors.get(name),
            )
            for name, found in errors.items()
        }
    )


def _run(programs: Programs, arguments: Sequence[Array], runner: KernelRunner, *, schedule: bool) -> CaseRuns:
    """Returns the outputs of program order and, unless `schedule` is false, of the replayed schedule."""
    if schedule:
        return replay_programs(programs, arguments, runner)
    intended, stale = run_program_order(programs, arguments, runner)
    return CaseRuns(intended=intended, stale=stale, actual={}, again={}, changed_inputs={}, unreached=())


def _judge_precision(
    attribution: Attribution, array: Array, name: str, reference: Mapping[str, Array], tolerance: float
) -> Attribution:
    if attribution is not Attribution.FRESH or name not in reference:
        return attribution
    error = compute_error(array, reference[name])
    return Attribution.LOSSY if tolerance < error < FAR else attribution


def prepare() -> Answerer:
    """Imports jax, triton and numpy, and returns the function that answers requests. No file of the user's is imported
    before them (see `compile.cases.loader`).
    """
    from ligerdiag.artifacts.artifact import load_artifact
    from ligerdiag.compile.cases.loader import CaseLoader
    from ligerdiag.compile.lowering.lowered_case import import_kernel_libraries
    from ligerdiag.device.comparison_worker import compare_with_replay

    import_kernel_libraries()
    loader = CaseLoader(once=True)

    def answer(job: Json, log: Path) -> str:
        del log
        request = parse_comparison_request(job)
        case = loader.find_case(request.source, request.case_id)
        artifact = load_artifact(Path(request.artifact))
        results = Path(request.results)
        compared = compare_with_replay(case, artifact, results, draws=request.draws)
        return render_answer(compared)

    return answer


if __name__ == "__main__":
    serve(prepare)
