"""Measures `inspect` on large modules, and whether its cost grows linearly: `python tools/bench_inspect.py
[INSTRUCTIONS]`.

It is a benchmark that prints, not a test: figures depend on the machine. Each row is a process of its own. Modules are
blocks of real compiled ones (`repeat_module`) with XLA's buffer assignment: without tags, as in a user's own dump, or,
in rows that say so, with tags and the program as written, as in our own artifacts. `read` is from the files to the
views of both modules, `judge` everything after it, with the kernels' effects read from the cache, both in processor
seconds; `peak` is the largest resident memory.
"""

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from time import process_time

sys.path.insert(0, str(Path(__file__).parents[1]))

from ligerdiag.artifacts.artifact import Artifact
from ligerdiag.artifacts.cache import Cache
from ligerdiag.compile.compile_service import compile_cases, discover_cases
from ligerdiag.hlo.xla_pb2 import HloProto
from ligerdiag.toolchains.gpu_targets import load_target
from ligerdiag.workers.pool import Pool
from tools.repeat_module import repeat_module

ROOT = Path(__file__).parents[1]
LARGEST = 150_000
LIMIT_SECONDS, LIMIT_BYTES = 3.0, 1 << 30
"""For the largest module, after reading."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The modules that a row repeats as blocks."""

    label: str
    selector: str
    every_kernel: bool = False
    """Whether every block keeps its kernel, not only the first."""
    tags: bool = False
    """Whether the modules are those of the compile worker: with tags, and with the program as written."""


_IN_PLACE = "cases/seed_flce.py::seed_flce[False-float32-True-1-4-32-16]"
SOURCES = (
    Source(label="no custom calls", selector="tests/dumps/programs/ordinary.py::ordinary"),
    Source(
        label="kernel out of place", selector="cases/flce_modes.py::flce_modes[out_of_place-float32-True-1-4-32-16]"
    ),
    Source(label="one kernel in place", selector=_IN_PLACE),
    Source(label="one kernel in place, tags", selector=_IN_PLACE, tags=True),
    Source(label="a kernel in every block", selector=_IN_PLACE, every_kernel=True),
)
OPTIMIZED = "module_0001.jit_f.sm_9.0_gpu_after_optimizations.hlo.pb"
PROGRAM = "module_0001.jit_f.before_optimizations.hlo.pb"
ROW = "{:<26} {:>12} {:>6} {:>7} {:>8} {:>8} {:>9}  {}\n"


def main() -> None:
    largest = int(sys.argv[1]) if len(sys.argv) > 1 else LARGEST
    write_row("module", "instructions", "MiB", "read s", "judge s", "us each", "peak MiB", "verdicts")
    with tempfile.TemporaryDirectory() as folder:
        for source, artifact in zip(SOURCES, compile_sources(), strict=True):
            for part in (8, 4, 2, 1):
                write_modules(artifact, Path(folder), largest // part, source)
                run_row(source, Path(folder))


def compile_sources() -> list[Artifact]:
    """Returns the artifacts of the sources, in order."""
    with Pool(cache=Cache(), jobs=1) as pool:
        found: list[Artifact] = []
        for source in SOURCES:
            cases = discover_cases([str(ROOT / source.selector)], pool=pool)
            result = next(compile_cases(cases, [load_target("h100")], pool=pool))
            assert result.artifact is not None, result.error
            found.append(result.artifact)
    return found


def write_modules(artifact: Artifact, folder: Path, instructions: int, source: Source) -> None:
    """Writes both modules, with as many blocks as give the optimized one that many instructions."""
    optimized, program = HloProto(), HloProto()
    optimized.ParseFromString(artifact.optimized.read_bytes())
    program.ParseFromString((artifact.as_written if source.tags else artifact.unoptimized).read_bytes())
    for computation in (*optimized.hlo_module.computations, *program.hlo_module.computations):
        for instruction in computation.instructions if not source.tags else ():
            instruction.metadata.op_name = instruction.metadata.op_name.partition("#ld")[0]
    blocks = instructions // sum(len(c.instructions) for c in optimized.hlo_module.computations)
    for name, module in ((OPTIMIZED, optimized), (PROGRAM, program)):
        repeated = repeat_module(module, blocks, every_kernel=source.every_kernel)
        (folder / name).write_bytes(repeated.SerializeToString())


def run_row(source: Source, folder: Path) -> None:
    """Measures one row in another process and writes it."""
    size = sum(path.stat().st_size for path in folder.iterdir()) / 2**20
    command = [sys.executable, __file__, "--measure", str(folder), *(["--as-written"] if source.tags else [])]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800)
    if done.returncode:
        write_row(source.label, "failed", *[""] * 5, done.stderr.strip().splitlines()[-1])
        return
    instructions, read, judge, peak, verdicts = done.stdout.strip().splitlines()[-1].split("\t")
    each = float(judge) / int(instructions) * 1e6
    figures = (f"{float(read):.2f}", f"{float(judge):.2f}", f"{each:.1f}", f"{float(peak):.0f}")
    write_row(source.label, f"{int(instructions):,}", f"{size:.0f}", *figures, verdicts)


def write_row(*cells: str) -> None:
    sys.stdout.write(ROW.format(*cells))
    sys.stdout.flush()


def measure(folder: Path, *, as_written: bool) -> None:
    """Measures one row in its own process: prints instructions, seconds, seconds, MiB and the verdicts."""
    from ligerdiag.dumps.find import find_modules
    from ligerdiag.dumps.load import load_module, may_hold_kernels
    from ligerdiag.inspection.compilation import analyse_compilation
    from ligerdiag.inspection.coverage import Compilation

    def refuse(data: bytes, name: str) -> bytes:
        raise AssertionError(name, len(data))

    files = find_modules(folder).modules[0]
    started = process_time()
    may_hold = may_hold_kernels(files)
    loaded = load_module(files, refuse)
    read = process_time() - started
    instructions = loaded.optimized.instruction_count
    compilation = Compilation(
        name=files.id,
        program=loaded.programs[0],
        as_written=as_written,
        optimized=loaded.optimized,
        buffers=loaded.buffers,
        output_names=(),
    )
    effects = Cache().root / "effects"
    started, verdicts = process_time(), "nothing to check"
    if may_hold:
        inspection = analyse_compilation(compilation, effects_cache=effects).inspection
        verdicts = (
            " ".join(verdict.value for verdict in inspection.outputs.values()) + f" {len(inspection.findings)} findings"
        )
    judge = process_time() - started
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    peak = int(status["VmHWM"].split()[0]) / 1024
    sys.stdout.write("\t".join(map(str, (instructions, read, judge, peak, verdicts))) + "\n")


if __name__ == "__main__":
    os.chdir(ROOT)
    if sys.argv[1:2] == ["--measure"]:
        measure(Path(sys.argv[2]), as_written="--as-written" in sys.argv)
    else:
        main()
