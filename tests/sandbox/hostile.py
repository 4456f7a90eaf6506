"""Hostile inputs that once took minutes or gigabytes, and a measurement of a command's cost."""

import gzip
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile

from ligerdiag.artifacts.artifact import (
    AS_WRITTEN,
    FORMAT_VERSION,
    KERNEL_CALLS,
    LOG,
    MANIFEST,
    OPTIMIZED,
    PROVENANCE,
    READERS,
    THUNKS,
    UNOPTIMIZED,
    Provenance,
    render_kernel_calls,
    render_provenance,
    write_manifest,
)
from ligerdiag.workers import templates
from tests.hlo.building import Builder
from tests.sandbox import measured_process

ROOT = Path(__file__).parents[2]
DUMPED = "module_0001.jit_f.sm_9.0_gpu_after_optimizations"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of one run of the command line, including everything it started and waited for."""

    code: int
    said: str
    seconds: float
    """Processor time."""
    memory: int
    """Bytes of the largest process."""


def measure(*words: str | Path, cache: Path, timeout: float = 1200) -> Cost:
    """Runs `ligerdiag` with these arguments; processes left after the timeout are killed, and the exit code is then
    negative.
    """
    shared = {templates.VARIABLE: ""}  # its workers' cost counts too
    environment = os.environ | {"LIGERDIAG_CACHE_DIR": str(cache)} | shared
    with NamedTemporaryFile() as out:
        command = [sys.executable, "-m", "ligerdiag", *map(str, words)]
        measured = subprocess.run(
            [sys.executable, "-I", measured_process.__file__, str(timeout), out.name, *command],
            cwd=ROOT, env=environment, capture_output=True, check=True,
        )  # fmt: skip
        said = out.read().decode()
    return Cost(said=said, **json.loads(measured.stdout))


def make_doubling_calls(levels: int) -> bytes:
    """Returns a module in which every computation calls the previous one twice: 2**levels calls of a kernel."""
    made = Builder()
    inner = made.computation("c0")
    value = made.add(inner, "parameter")
    call = made.add(inner, "custom-call", [value])
    call.custom_call_target = "triton_kernel_call"
    made.define(call)
    for level in range(1, levels + 1):
        outer = made.computation(f"c{level}")
        value = made.add(outer, "parameter")
        made.define(value)
        for _ in range(2):
            value = made.add(outer, "call", [value], calls=[inner])
        inner = outer
    for computation in made.proto.hlo_module.computations:
        made.schedule(computation)
    return made.bytes()


def write_artifact(folder: Path, module: bytes) -> Path:
    """Writes an artifact folder with a correct manifest and the module both before and after optimizations."""
    folder.mkdir(parents=True)
    provenance = Provenance(
        format_version=FORMAT_VERSION, key="k", case_id="hostile", source="x.py", outputs=("y",), inputs=("x",),
        input_placements=(), output_placements=(), parameters=(0,), tags=0, target="h100", target_sha256="",
        compute_capability=90, mesh={}, devices=1, toolchain="own", versions={}, environment={}, flags={}, ties=(),
        trace_seconds=0, lower_seconds=0, compile_seconds=0,
    )  # fmt: skip
    texts = {
        THUNKS: "", LOG: "", READERS: '{"readers": [], "trouble": ""}', PROVENANCE: render_provenance(provenance),
        KERNEL_CALLS: render_kernel_calls(()),
    }  # fmt: skip
    for name in (AS_WRITTEN, UNOPTIMIZED, OPTIMIZED):
        (folder / name).write_bytes(module)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    write_manifest(folder)
    return folder


def write_empty_members(folder: Path, size: int) -> Path:
    """Writes a gzip file of many empty members."""
    folder.mkdir(parents=True)
    member = gzip.compress(b"")
    (folder / f"{DUMPED}.hlo.pb.gz").write_bytes(member * (size // len(member)))
    return folder


def write_fifo_manifest(folder: Path) -> Path:
    """Writes a folder with an artifact whose manifest is a pipe that never ends."""
    (folder / "artifact").mkdir(parents=True)
    os.mkfifo(folder / "artifact" / MANIFEST)
    (folder / "artifact" / OPTIMIZED).write_bytes(b"x")
    return folder


def write_sparse(folder: Path, name: str, head: bytes, size: int) -> Path:
    """Writes a file that is nearly all holes."""
    folder.mkdir(parents=True)
    with (folder / name).open("wb") as file:
        file.write(head)
        file.truncate(size)
    return folder
