"""Worker side: `python -m ligerdiag.device.comparison_worker` replays what devices ran; its environment is a replay's."""

from pathlib import Path

from ligerdiag.compile.fields import Json
from ligerdiag.compile.worker_loop import Answerer, serve
from ligerdiag.device.job import parse_comparison_request, render_answer


def prepare() -> Answerer:
    """Imports jax, triton and numpy, before any file of the user's: see case_loader."""
    from ligerdiag.compile.artifacts import load_artifact
    from ligerdiag.compile.case_loader import CaseLoader
    from ligerdiag.compile.lowering import import_kernel_libraries
    from ligerdiag.device.comparison import compare_with_replay

    import_kernel_libraries()
    loader = CaseLoader(once=True)

    def answer(job: Json, log: Path) -> str:
        del log
        request = parse_comparison_request(job)
        case = loader.find_case(request.source, request.case_id)
        artifact = load_artifact(Path(request.artifact))
        results = Path(request.results)
        compared = compare_with_replay(case, artifact, results, draws=request.draws, processes=request.processes)
        return render_answer(compared)

    return answer


if __name__ == "__main__":
    serve(prepare)
