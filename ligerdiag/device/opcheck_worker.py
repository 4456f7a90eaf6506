"""The worker of `ligerdiag.opcheck`, `python -m ligerdiag.device.opcheck_worker`.

A kernel that accesses memory outside its buffers can end the process or its GPU context, so the calls run here and not in
the user's process.
"""

import os
from pathlib import Path

from ligerdiag.codec import Json
from ligerdiag.device.device_jobs import parse_opcheck_request
from ligerdiag.model.jobs import render_answer
from ligerdiag.workers.loop import Answerer, serve


def prepare() -> Answerer:
    """Imports jax and triton, and returns the function that answers requests. No file of the user's is imported before
    them (see `compile.cases.loader`).
    """
    from ligerdiag.compile.cases.device_queries import install_answers
    from ligerdiag.compile.cases.loader import CaseLoader
    from ligerdiag.compile.lowering.lowered_case import configure_locations, import_kernel_libraries
    from ligerdiag.device.lone_calls import find_calls

    import_kernel_libraries()
    if not os.environ.get("JAX_PLATFORMS", "").startswith("cuda"):
        install_answers()
    configure_locations(str(Path(__file__).parents[1]))
    loader = CaseLoader(once=True)

    def answer(job: Json, log: Path) -> str:
        del log
        return render_answer(find_calls(parse_opcheck_request(job), loader))

    return answer


if __name__ == "__main__":
    serve(prepare)
