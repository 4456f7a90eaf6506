"""Prints XLA's own memory analysis of an ordinary and of a donated program, each before what ligerdiag computes."""

import os
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parent
sys.path[:0] = [str(FOLDER.parents[2]), str(FOLDER)]


def main() -> None:
    import jax.numpy as jnp

    from ligerdiag.compile.lowering.lowered_case import lower_case
    from ligerdiag.hlo.parse import load_hlo
    from ligerdiag.model.case import Arg, Case

    def step(x, y):
        return x + 1, jnp.sort(jnp.sin(x @ y)), y.sum()

    description = (FOLDER.parents[2] / "ligerdiag/toolchains/targets/h100.pbtxt").read_text()
    for donate in (False, True):
        case = Case(name="step", function=step, args=(Arg(shape=(64, 64), donate=donate), Arg(shape=(64, 64))))
        with tempfile.TemporaryDirectory() as folder:
            options = {"xla_dump_to": folder, "xla_dump_hlo_as_proto": True}
            compiled = lower_case(case, description, 90).lowered.compile(compiler_options=options)
            (optimized,) = Path(folder).glob("*gpu_after_optimizations.hlo.pb")
            memory = load_hlo(optimized)[1].memory
        analysis = compiled.memory_analysis()
        names = ("argument", "output", "temp", "alias")
        print(*(getattr(analysis, f"{name}_size_in_bytes") for name in names))
        print(*(getattr(memory, name) for name in names))


if __name__ == "__main__":
    from ligerdiag.toolchains.toolchain import current_toolchain, worker_environment

    os.environ.update(worker_environment(current_toolchain(), Path(tempfile.gettempdir())))
    main()
