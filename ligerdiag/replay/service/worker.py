"""Worker side: `python -m ligerdiag.replay.service.worker` replays one artifact after another on the CPU.

Its environment is that of a compile worker, with JAX on the CPU:
see `service`.
"""

import traceback
from pathlib import Path

from ligerdiag.codec import Json
from ligerdiag.errors import LigerdiagError
from ligerdiag.model.case import Case
from ligerdiag.model.findings import Replay, ReplayState
from ligerdiag.model.jobs import Source
from ligerdiag.replay.service.job import ReplayAnswer, parse_replay_request, render_replay_answer
from ligerdiag.workers.loop import Answerer, serve


def prepare() -> Answerer:
    """Imports jax, triton and numpy, before any file of the user's: see case_loader."""
    from ligerdiag.artifacts.artifact import load_artifact
    from ligerdiag.compile.cases.loader import CaseLoader, compute_draws
    from ligerdiag.compile.lowering.lowering import import_kernel_libraries
    from ligerdiag.errors import describe_fault
    from ligerdiag.replay.interpreter.scope import NotCoveredError
    from ligerdiag.replay.runs.case_run import Given, compute_given, replay_case

    import_kernel_libraries()
    loader = CaseLoader(once=True)
    last: dict[str, Given] = {}

    def find_given(case: Case, source: Source) -> Given:
        draws = compute_draws(case, source.pickled or str(source), is_live=bool(source.pickled))
        if draws not in last:
            last.clear()
            last[draws] = compute_given(case)
        return last[draws]

    def answer(job: Json, log: Path) -> str:
        del log
        request = parse_replay_request(job)
        case = loader.find_case(request.source, request.case_id)
        artifact = load_artifact(Path(request.artifact))
        try:
            replay = replay_case(artifact, find_given(case, request.source), rows=request.rows, modules=request.modules)
        except NotCoveredError as error:
            replay = Replay(state=ReplayState.NOT_COVERED, reason=str(error))
        except (LigerdiagError, MemoryError):
            raise
        except Exception as fault:
            traceback.print_exception(fault)
            replay = Replay(state=ReplayState.FAILED, reason=describe_fault(fault))
        return render_replay_answer(ReplayAnswer(replay=replay, dependencies=loader.compute_dependencies()))

    return answer


if __name__ == "__main__":
    serve(prepare)
