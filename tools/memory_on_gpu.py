"""Compares the memory analysis of cases with a GPU: `python -m tools.memory_on_gpu FILE... [--out rows.jsonl]`.

For each case it compiles the program for the GPU of this machine, analyses that very module, and prints, in bytes,

- temporaries and peak, beside `compiled.memory_analysis()`,
- the copies of one call, beside the copies from device memory to device memory in a profile of one call. A copy in a
  branch counts if the branch is taken, so the profile must lie between the copies outside of branches and all of them;
  a copy that XLA made a kernel (a transposition, a fusion) is no memcpy and is counted apart.

It needs a GPU, and prints a line for each case that differs.
"""

import json
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import jax
import typer
from jax.profiler import ProfileData

from ligerdiag.compile.cases.arguments import build_argument_specs, compute_donated, draw_arguments
from ligerdiag.compile.cases.loader import CaseLoader
from ligerdiag.device.device_worker import build_device_mesh
from ligerdiag.hlo.parse import load_hlo
from ligerdiag.memory.memory_use import analyse_memory
from ligerdiag.memory.moves import Move, list_moves
from ligerdiag.memory.value_uses import ValueUses
from ligerdiag.model.case import Case
from ligerdiag.model.jobs import Source

_DUMPED = "*after_optimizations.hlo.pb"
_MEMCPY = frozenset({"copy", "copy-start"})
_SIZE = re.compile(r"\bsize:(\d+)")
_TOLERANCE = 0.01
"""Of the peak: XLA counts tables of pointers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One case, in bytes."""

    case: str
    device: str
    temporaries: int
    temporaries_of_xla: int
    peak: int
    peak_of_xla: int
    least_copied: int
    """By memcpy, outside of branches."""
    most_copied: int
    """By memcpy, all branches taken."""
    copied_by_kernels: int
    profiled: int
    """Copies from device memory to device memory in the profile."""

    @property
    def agrees(self) -> bool:
        return (
            self.temporaries == self.temporaries_of_xla
            and abs(self.peak - self.peak_of_xla) <= _TOLERANCE * self.peak_of_xla
            and self.least_copied <= self.profiled <= self.most_copied
        )


def measure_case(case: Case) -> Row:
    """Compiles, analyses, runs and profiles a case."""
    library: Any = jax
    mesh = build_device_mesh(case)
    specs = build_argument_specs(case, mesh)
    jitted: Any = library.jit(case.function, keep_unused=True, donate_argnums=compute_donated(case))
    with tempfile.TemporaryDirectory() as folder:
        options = {"xla_dump_to": folder, "xla_dump_hlo_as_proto": True}
        with mesh:
            compiled = jitted.lower(*specs).compile(compiler_options=options)
        module, buffers = load_hlo(max(Path(folder).glob(_DUMPED), key=lambda path: path.stat().st_size))
    assert buffers is not None
    leaves = [f"output {number}" for number, _ in enumerate(library.tree.leaves(compiled.out_info))]
    use = analyse_memory(program=None, optimized=module, buffers=buffers, output_names=leaves).use
    moves = list_moves(ValueUses(module, buffers), smallest=1)
    by_memcpy = [one for one in moves if not one.is_transposed and one.instruction.opcode in _MEMCPY]
    stats = compiled.memory_analysis()
    shardings = library.tree.map(lambda spec: spec.sharding, specs)

    def put() -> Any:
        return library.block_until_ready(library.device_put(draw_arguments(case, 0), shardings))

    library.block_until_ready(compiled(*put()))
    arguments = put()
    with tempfile.TemporaryDirectory() as folder:
        with library.profiler.trace(folder):
            library.block_until_ready(compiled(*arguments))
        profiled = sum(_list_copied(folder)) // mesh.size
    return Row(
        case=case.id,
        device=str(mesh.devices.flat[0].device_kind),
        temporaries=use.temporaries,
        temporaries_of_xla=stats.temp_size_in_bytes,
        peak=use.peak,
        peak_of_xla=stats.peak_memory_in_bytes,
        least_copied=_add_up(one for one in by_memcpy if not one.in_branch),
        most_copied=_add_up(by_memcpy),
        copied_by_kernels=_add_up(moves) - _add_up(by_memcpy),
        profiled=profiled,
    )


def _add_up(moves: Iterable[Move]) -> int:
    """Returns the bytes of one call; a loop with an unknown trip count runs once."""
    return sum(one.bytes * (one.trips or 1) for one in moves)


def _list_copied(folder: str) -> Iterator[int]:
    """Yields the bytes of each copy within device memory in a profile."""
    for path in Path(folder).rglob("*.xplane.pb"):
        profile: Any = ProfileData.from_file(str(path))
        for plane in profile.planes:
            for line in plane.lines:
                for event in line.events:
                    if event.name != "MemcpyD2D":
                        continue
                    details = " ".join(str(value) for _, value in event.stats)
                    found = _SIZE.search(details)
                    yield int(found[1]) if found else 0


def list_cases(files: Sequence[Path]) -> Iterator[Case]:
    """Yields the cases of these files."""
    loader = CaseLoader()
    for file in files:
        yield from loader.load(Source(file=str(file.absolute()), root=str(file.absolute().parent))).values()


def main(
    files: Annotated[list[Path], typer.Argument(help="Case files.")],
    out: Annotated[Path | None, typer.Option(help="A file that gets a JSON line for each case.")] = None,
) -> None:
    """Compare the memory analysis of cases with the GPU of this machine; exit code 1 unless all agree."""
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
