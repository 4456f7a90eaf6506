"""Finds out whether two programs compute the same outputs: runs both in program order and compares the results. A
worker, `python -m ligerdiag.replay.meaning_worker`.

A change that makes a schedule right may also change the program, and then the schedule is right for another program
than the author's. So both programs as written run on the same arguments, and their outputs are compared. There are
several sets of arguments, because a branch that depends on the numbers may hide a difference: the set that a replay of
the first program's case uses, the same set with the opposite signs, and further random sets. Where the kernels cannot
run, or where their numbers show nothing, opaque functions take their place.
"""

import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ligerdiag.codec import Json, read_record
from ligerdiag.model.jobs import Job, Source, make_job, render_answer
from ligerdiag.replay.opaque_calls import MatchedCalls
from ligerdiag.workers.loop import Answerer, serve


@dataclass(frozen=True, slots=True, kw_only=True)
class MeaningRequest:
    """A request to run the programs of two artifacts on the same arguments and to compare their outputs."""

    source: Source
    """The source of the first program's case, from which the arguments are drawn."""
    case_id: str
    artifact: str
    """Directory of the first program's artifact."""
    changed: str
    """Directory of the changed program's artifact."""
    modules: Mapping[str, Path] = field(default_factory=dict[str, Path])
    """Maps the sha256 of a kernel's Triton IR to a file with its parsed operations; see `KernelRunner`."""
    calls: MatchedCalls | None = None
    """The calls that run as opaque functions; None to run the kernels themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeaningAnswer:
    """Says whether two programs compute the same outputs."""

    errors: Mapping[str, float] = field(default_factory=dict[str, float])
    """Maps the name of an output to the largest relative difference, over all sets of arguments, between the two
    programs; NaN if only one program's output is finite.
    """
    different: tuple[str, ...] = ()
    """Names of the outputs that differ by more than rounding explains."""
    draws: int = 0
    """Number of sets of arguments on which the programs were compared."""
    reason: str = ""
    """The reason why the programs were not compared; empty if they were."""
    telling: tuple[str, ...] = ()
    """Names of the outputs that would change if the hidden writes of the first program were lost. Only opaque functions
    show this.
    """
    kernels: tuple[str, ...] = ()
    """Names of the kernels or targets in whose place opaque functions ran; () if the kernels themselves ran."""
    has_same_code: bool = True
    """Whether the code of these kernels is the same in both programs."""


def make_meaning_job(request: MeaningRequest, timeout: float) -> Job[MeaningAnswer]:
    """Returns a job in which a worker answers the request within `timeout` seconds."""
    return make_job(request, MeaningAnswer, request.source, "the comparison with the changed program", timeout=timeout)


def prepare() -> Answerer:
    """Imports jax, triton and numpy, and returns the function that answers requests. No file of the user's is imported
    before them.
    """
    from ligerdiag.artifacts.artifact import load_artifact
    from ligerdiag.compile.cases.loader import CaseLoader
    from ligerdiag.compile.lowering.lowered_case import import_kernel_libraries
    from ligerdiag.errors import LigerdiagError, describe_fault
    from ligerdiag.replay.opaque_runs.opaque_meanings import compare_opaquely
    from ligerdiag.replay.ops.scope import NotCoveredError
    from ligerdiag.replay.runs.case_inputs import draw_arrays, draw_mirrored
    from ligerdiag.replay.runs.case_run import load_programs
    from ligerdiag.replay.runs.meanings import compare_programs

    import_kernel_libraries()
    loader = CaseLoader(once=True)

    def compare(request: MeaningRequest) -> MeaningAnswer:
        first, changed = (load_programs(load_artifact(Path(one))) for one in (request.artifact, request.changed))
        if first.signature.outputs != changed.signature.outputs:
            return MeaningAnswer(reason="the original and the changed program differ in their outputs")
        if len(first.signature.inputs) != len(changed.signature.inputs):
            return MeaningAnswer(reason="the original and the changed program differ in their number of arguments")
        case = loader.find_case(request.source, request.case_id)
        if request.calls is not None:
            opaque = compare_opaquely(first, changed, (draw_arrays(case), draw_mirrored(case)), request.calls)
            return MeaningAnswer(
                different=opaque.different,
                telling=opaque.telling,
                draws=2,
                kernels=request.calls.kernels,
                has_same_code=request.calls.has_same_code,
            )
        draws = (lambda: draw_arrays(case), lambda: draw_mirrored(case), lambda: draw_arrays(case, 1))
        found = compare_programs(first, changed, draws, request.modules)
        return MeaningAnswer(errors=found.errors, different=found.different, draws=found.draws)

    def answer(job: Json, log: Path) -> str:
        del log
        try:
            return render_answer(compare(read_record(MeaningRequest, job, "request")))
        except NotCoveredError as error:
            return render_answer(MeaningAnswer(reason=f"the replay does not cover {error}"))
        except (LigerdiagError, MemoryError):
            raise
        except Exception as fault:
            traceback.print_exception(fault)
            return render_answer(MeaningAnswer(reason=describe_fault(fault)))

    return answer


if __name__ == "__main__":
    serve(prepare)
