"""Run as a separate process: compiles cases for an H100 with XLA's dump flags into plain folders, as a user would or, if
`quick`, without autotuning and machine code, which takes a tenth of the processor time.

python -m tests.dumps.make_dumps '[{"file": …, "id": …, "into": …, "tagged": …, "quick": …, "flags": {…}}, …]'
"""

import json
import os
import sys
from pathlib import Path

from ligerdiag.compile.cases.loader import CaseLoader
from ligerdiag.compile.lowering.compile_job import (
    _choose_quick_options,  # pyright: ignore[reportPrivateUsage]
    _find_assembler,  # pyright: ignore[reportPrivateUsage]
)
from ligerdiag.compile.lowering.lowered_case import configure_locations, lower_case
from ligerdiag.model.jobs import Source
from ligerdiag.toolchains.gpu_targets import load_target

ROOT = Path(__file__).parents[2]


def main() -> None:
    target = load_target("h100")
    configure_locations(str(ROOT / "ligerdiag"))
    loader, path = CaseLoader(), os.environ["PATH"]
    for job in json.loads(sys.argv[1]):
        into = Path(job["into"])
        into.mkdir(parents=True, exist_ok=True)
        case = loader.load(Source(file=job["file"], root=str(ROOT)))[job["id"]]
        program = lower_case(case, target.description, target.compute_capability, tagged=job["tagged"])
        os.environ["PATH"] = f"{_find_assembler() / 'bin'}{os.pathsep}{path}" if job.get("quick") else path
        quick = _choose_quick_options() if job.get("quick") else {}
        program.lowered.compile(compiler_options={**quick, **job["flags"], "xla_dump_to": str(into)})


if __name__ == "__main__":
    main()
