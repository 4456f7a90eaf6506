"""Prints the peak of memory in use of each case, as XLA says and as ligerdiag adds it up.

Arguments: names of modules with CASES, each with `:CASE` if only that case counts.
"""

import importlib
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
sys.path[:0] = [str(ROOT), str(FOLDER / "programs")]


def measure(case: Any, description: str) -> tuple[int, int]:
    from ligerdiag.compile.lowering.lowered_case import lower_case
    from ligerdiag.hlo.parse import load_hlo
    from ligerdiag.memory.live_bytes import compute_live_bytes
    from ligerdiag.memory.value_uses import ValueUses

    with tempfile.TemporaryDirectory() as folder:
        options = {"xla_dump_to": folder, "xla_dump_hlo_as_proto": True}
        compiled = lower_case(case, description, 90).lowered.compile(compiler_options=options)
        (optimized,) = Path(folder).glob("*gpu_after_optimizations.hlo.pb")
        module, buffers = load_hlo(optimized)
    assert buffers is not None
    live = compute_live_bytes(ValueUses(module, buffers))
    return compiled.memory_analysis().peak_memory_in_bytes, live.sizes[live.peak]


def main(names: list[str]) -> None:
    description = (ROOT / "ligerdiag/toolchains/targets/h100.pbtxt").read_text()
    for name in names:
        module, _, wanted = name.partition(":")
        for case in importlib.import_module(module).CASES:
            if wanted in ("", case.name):
                print(case.name, *measure(case, description), flush=True)


if __name__ == "__main__":
    from ligerdiag.toolchains.toolchain import current_toolchain, worker_environment

    os.environ.update(worker_environment(current_toolchain(), Path(tempfile.gettempdir())))
    main(sys.argv[1:])
