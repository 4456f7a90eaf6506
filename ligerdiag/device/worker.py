"""Worker side: `python -m ligerdiag.device.worker` runs one case after another on the GPUs of this machine."""

from pathlib import Path

from ligerdiag.codec import Json
from ligerdiag.device.job import parse_device_request, render_answer
from ligerdiag.workers.loop import Answerer, serve


def prepare() -> Answerer:
    """Imports jax and triton, before any file of the user's: see case_loader."""
    from ligerdiag.compile.cases.loader import CaseLoader
    from ligerdiag.compile.lowering.lowering import configure_locations
    from ligerdiag.device.execution import run_case

    configure_locations(str(Path(__file__).parents[1]))
    loader = CaseLoader(once=True)

    def answer(job: Json, log: Path) -> str:
        return render_answer(run_case(parse_device_request(job), loader, log))

    return answer


if __name__ == "__main__":
    serve(prepare)
