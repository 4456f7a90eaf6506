"""Compares the memory analysis of cases with a GPU: `python -m tools.memory_on_gpu FILE... [--out rows.jsonl]`.

For each case it compiles the program for the GPUs of this machine, analyses that very module, and compares, in bytes,

- temporaries and peak with `compiled.memory_analysis()`,
- each copy of the schedule with the copies within device memory that a profile of one call shows for that instruction.
  A copy in a branch may be missing, and one in a loop with an unknown trip count may come any number of times. A copy
  that XLA made a kernel (a transposition, a fusion) is no memcpy and is counted apart, and so is a memcpy that does the
  work of another instruction: a slice, the update of some rows, a sort, a collective.

The programs run without CUDA graphs, in which a profile shows a memcpy as a kernel without its size. It needs as many
GPUs as the meshes of the cases, and prints a line for each case that differs.
"""

import json
import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import jax
import typer
from jax.profiler import ProfileData

from ligerdiag.compile.cases.arguments import build_argument_specs, compute_donated, draw_arguments
from ligerdiag.compile.cases.loader import CaseLoader
from ligerdiag.compile.lowering.jax_versions import enter_mesh
from ligerdiag.device.device_worker import build_device_mesh
from ligerdiag.hlo.parse import load_hlo
from ligerdiag.memory.memory_use import analyse_memory
from ligerdiag.memory.moves import list_moves
from ligerdiag.memory.value_uses import ValueUses
from ligerdiag.model.case import Case
from ligerdiag.model.jobs import Source

_DUMPED = "*after_optimizations.hlo.pb"
_MEMCPY = frozenset({"copy", "copy-start"})
_SIZE = re.compile(r"\bsize:(\d+)")
_TOLERANCE = 0.001
"""Of the peak: XLA counts tables of pointers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """The copies of one instruction on one device in one call, in bytes."""

    bytes: int
    """Of one execution."""
    runs: int | None
    """How often it runs in one call; None if nobody knows."""
    in_branch: bool
    profiled: int

    @property
    def agrees(self) -> bool:
        if self.runs is None:
            return self.profiled % self.bytes == 0
        return self.profiled == self.bytes * self.runs or (
            self.in_branch and self.profiled <= self.bytes * self.runs and self.profiled % self.bytes == 0
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One case, in bytes."""

    case: str
    device: str
    devices: int
    temporaries: int
    temporaries_of_xla: int
    peak: int
    peak_of_xla: int
    copies: dict[str, Copied]
    """By instruction, those that run as a memcpy."""
    copied_by_kernels: int
    others: dict[str, int]
    """Other bytes that the profile shows as copied within device memory, by the instruction's name."""

    @property
    def agrees(self) -> bool:
        return (
            self.temporaries == self.temporaries_of_xla
            and abs(self.peak - self.peak_of_xla) <= _TOLERANCE * self.peak_of_xla
            and all(one.agrees for one in self.copies.values())
            and not any(is_copy(name) for name in self.others)
        )


def is_copy(name: str) -> bool:
    """Returns whether an instruction of this name is a copy; XLA names instructions after their opcodes."""
    return name.startswith("copy") and not name.startswith("copy_")


def measure_case(case: Case) -> Row:
    """Compiles, analyses, runs and profiles a case."""
    library: Any = jax
    mesh = build_device_mesh(case)
    specs = build_argument_specs(case, mesh)
    jitted: Any = library.jit(case.function, keep_unused=case.keep_unused, donate_argnums=compute_donated(case))
    with tempfile.TemporaryDirectory() as folder:
        options = {"xla_dump_to": folder, "xla_dump_hlo_as_proto": True}
        with enter_mesh(mesh) if case.mesh else nullcontext():
            compiled = jitted.lower(*specs).compile(compiler_options=options)
        module, buffers = load_hlo(max(Path(folder).glob(_DUMPED), key=lambda path: path.stat().st_size))
    assert buffers is not None
    leaves = [f"output {number}" for number, _ in enumerate(library.tree.leaves(compiled.out_info))]
    use = analyse_memory(program=None, optimized=module, buffers=buffers, output_names=leaves).use
    moves = list_moves(ValueUses(module, buffers), smallest=1)
    stats = compiled.memory_analysis()
    shardings = library.tree.map(lambda spec: spec.sharding, specs)

    def put() -> Any:
        return library.block_until_ready(library.device_put(draw_arguments(case, 0), shardings))

    library.block_until_ready(compiled(*put()))
    arguments = put()
    with tempfile.TemporaryDirectory() as folder:
        with library.profiler.trace(folder):
            library.block_until_ready(compiled(*arguments))
        profiled = Counter[str]()
        for name, size in _list_copied(folder):
            profiled[name] += size
    copies: dict[str, Copied] = {}
    by_kernels = 0
    for one in moves:
        name = one.instruction.name
        if one.instruction.opcode in _MEMCPY and not one.is_transposed:
            copies[name] = Copied(
                bytes=one.bytes, runs=one.trips, in_branch=one.in_branch, profiled=profiled.pop(name, 0) // mesh.size
            )
        else:
            by_kernels += one.bytes * (one.trips or 1)
    return Row(
        case=case.id,
        device=str(mesh.devices.flat[0].device_kind),
        devices=mesh.size,
        temporaries=use.temporaries,
        temporaries_of_xla=stats.temp_size_in_bytes,
        peak=use.peak,
        peak_of_xla=stats.peak_memory_in_bytes,
        copies=copies,
        copied_by_kernels=by_kernels,
        others={name: size // mesh.size for name, size in profiled.items()},
    )


def _list_copied(folder: str) -> Iterator[tuple[str, int]]:
    """Yields the instruction's name and the bytes of each copy within device memory in a profile."""
    for path in Path(folder).rglob("*.xplane.pb"):
        profile: Any = ProfileData.from_file(str(path))
        for plane in profile.planes:
            if not plane.name.startswith("/device:GPU:"):
                continue
            for line in plane.lines:
                for event in line.events:
                    if event.name != "MemcpyD2D":
                        continue
                    stats = {name: str(value) for name, value in event.stats}
                    found = _SIZE.search(stats.get("memcpy_details", ""))
                    yield stats.get("hlo_op", ""), int(found[1]) if found else 0


def list_cases(files: Sequence[Path]) -> Iterator[Case]:
    """Yields the cases of these files."""
    loader = CaseLoader()
    for file in [one.absolute() for one in files]:  # before the loader changes the working directory
        yield from loader.load(Source(file=str(file), root=str(file.parent))).values()


def main(
    files: Annotated[list[Path], typer.Argument(help="Case files.")],
    out: Annotated[Path | None, typer.Option(help="A file that gets a JSON line for each case.")] = None,
) -> None:
    """Compare the memory analysis of cases with the GPU of this machine; exit code 1 unless all agree."""
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_gpu_enable_command_buffer="
    out = out and out.absolute()
    rows: list[Row] = []
    failed = 0
    for case in list_cases(files):
        try:
            row = measure_case(case)
        except Exception as fault:
            typer.echo(f"{case.id}: {type(fault).__name__} {fault}".splitlines()[0][:300])
            failed += 1
            continue
        rows.append(row)
        if out is not None:
            with out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(row)) + "\n")
        if not row.agrees:
            typer.echo(str(row))
    agreeing = sum(row.agrees for row in rows)
    typer.echo(f"{agreeing} of {len(rows) + failed} cases agree, {failed} were not measured")
    raise typer.Exit(agreeing < len(rows) + failed)


if __name__ == "__main__":
    typer.run(main)
