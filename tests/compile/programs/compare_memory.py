"""Prints XLA's own memory analysis of an ordinary and of a donated program, each before what ligerdiag computes."""

import os
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parent
sys.path[:0] = [str(FOLDER.parents[2]), str(FOLDER)]


def main() -> None:
    import jax.numpy as jnp

    from ligerdiag.case import Arg, Case
    from ligerdiag.compile.lowering import lower_case
    from ligerdiag.compile.memory_analysis import compute_memory

    def step(x, y):
        return x + 1, jnp.sort(jnp.sin(x @ y)), y.sum()

    description = (FOLDER.parents[2] / "ligerdiag/compile/targets/h100.pbtxt").read_text()
    for donate in (False, True):
        case = Case(name="step", function=step, args=(Arg(shape=(64, 64), donate=donate), Arg(shape=(64, 64))))
        with tempfile.TemporaryDirectory() as folder:
            options = {"xla_dump_to": folder, "xla_dump_hlo_as_proto": True}
            compiled = lower_case(case, description, 90).lowered.compile(compiler_options=options)
            (optimized,) = Path(folder).glob("*gpu_after_optimizations.hlo.pb")
            computed = compute_memory(optimized, compiled)
        analysis = compiled.memory_analysis()
        print(*(getattr(analysis, f"{name}_size_in_bytes") for name in computed))
        print(*computed.values())


if __name__ == "__main__":
    from ligerdiag.compile.toolchain import current_toolchain, worker_environment

    os.environ.update(worker_environment(current_toolchain(), Path(tempfile.gettempdir())))
    main()
