"""Worker side: `python -m ligerdiag.effects.worker` follows kernels' pointers with the Triton of its own environment."""

import importlib
import json
from pathlib import Path

from ligerdiag.codec import Json
from ligerdiag.effects.call import compute_call_effects
from ligerdiag.effects.job import parse_effects_request, render_effects
from ligerdiag.workers.loop import Answerer, serve


def prepare() -> Answerer:
    """Imports triton."""
    importlib.import_module("triton")

    def answer(job: Json, log: Path) -> str:
        del log
        call = parse_effects_request(job)
        effects = compute_call_effects(
            target=call.target,
            backend_config=call.backend_config,
            operands=call.operands,
            outputs=call.outputs,
            sizes=call.sizes,
        )
        return json.dumps({"answer": {"effects": render_effects(effects)}}) + "\n"

    return answer


if __name__ == "__main__":
    serve(prepare, starts_nothing=True)
