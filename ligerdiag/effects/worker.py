"""Worker side: `python -m ligerdiag.effects.worker` follows kernels' pointers, and reads their modules,
with the Triton of its own environment."""

import importlib
import json
from pathlib import Path

from ligerdiag.codec import Json, encode_record
from ligerdiag.effects.call import compute_call_effects
from ligerdiag.effects.job import MODULE, parse_effects_request, parse_module_request, render_effects
from ligerdiag.effects.ttir.module import parse_ttir
from ligerdiag.workers.loop import Answerer, serve


def prepare() -> Answerer:
    """Imports triton."""
    importlib.import_module("triton")

    def answer(job: Json, log: Path) -> str:
        del log
        if job.get("job") == MODULE:
            return json.dumps({"answer": encode_record(parse_ttir(parse_module_request(job)))}) + "\n"
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
