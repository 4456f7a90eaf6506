"""Replays random programs in other legal orders: `python -m tools.orders run DIR --count 2000 --orders 20`, then `show
DIR`.

Each program is compiled, judged, and replayed in that many orders that XLA may choose (`ligerdiag.hlo.legal_orders`).
An output that is called fresh and changes is missed. One that is called latent, is right, and changes in no order is
called so without need, as far as these orders and arguments show. DIR/orders.jsonl gets a line for each program as soon
as it is judged; a run continues after the existing lines. Programs are those of `python -m tools.fuzz`, by seed;
`--corpus` takes those of tests/fuzz/corpus.txt. With `--twins` each program also computes its formulas without a
kernel: XLA merges what is the same in both, and the kernels overwrite the merged value.
"""

import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from ligerdiag.api.checking import check
from ligerdiag.codec import FieldError, parse_record
from ligerdiag.ending import RunEnded
from ligerdiag.model.findings import Verdict
from ligerdiag.model.report import CaseReport, Progress
from ligerdiag.run_options import CheckOptions
from ligerdiag.workers.pool import count_cores
from tools.corpus import CORPUS, read_corpus
from tools.fuzz.drawing import draw_program
from tools.fuzz.processes import Workload, append_row, run_workloads, serve_workload
from tools.fuzz.source import render_case_file

BATCH = 24
TWINS = "twins"
"""Name of the empty file that marks a folder of programs with twins."""
_TWINNED = """

def beside_formulas(function, formulas):
    def both(*arguments):
        plain = formulas(*arguments)
        return {**function(*arguments), **{f"{name}_plain": value for name, value in plain.items()}}

    return both


import dataclasses

CASES = tuple(
    dataclasses.replace(case, function=beside_formulas(case.function, case.reference), reference=None) for case in CASES
)
"""
_RIGHT = ("fresh", "lossy")


@dataclass(frozen=True, slots=True, kw_only=True)
class OrdersRow:
    """One program."""

    seed: int
    outputs: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """Output name to its verdict, and the attribution of its numbers in the schedule's own order."""
    tried: int = 0
    """Number of distinct orders."""
    changed: Mapping[str, tuple[str, float]] = field(default_factory=dict[str, tuple[str, float]])
    """Output name to the order that changes it most, and the relative change."""
    unjudged: str = ""

    def list_missed(self) -> list[str]:
        """Returns the outputs that are called fresh and change."""
        return [name for name in self.changed if self.outputs[name][0] == Verdict.FRESH]

    def list_cautious(self) -> list[str]:
        """Returns the outputs that are called latent and that no order changes."""
        if not self.tried:
            return []
        return [
            name
            for name, (verdict, _) in self.outputs.items()
            if verdict == Verdict.LATENT and name not in self.changed
        ]


def judge_workload(workload: Workload) -> None:
    """Judges the workload's programs, on one core, and appends a row for each."""
    folder = Path(workload.directory)
    for start in range(0, len(workload.seeds), BATCH):
        if workload.is_over:
            return
        seeds = workload.seeds[start : start + BATCH]
        path = folder / "batches" / f"programs_{seeds[0]}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(render_programs(seeds, twins=(folder / TWINS).exists()), encoding="utf-8")
        cache = folder / f"cache-{os.getpid()}"
        options = CheckOptions(
            selectors=(str(path),),
            targets=(workload.target,),
            usual_targets=(workload.target,),
            jobs=1,
            timeout=workload.timeout,
            orders=workload.orders,
            cache_directory=cache,
        )
        report = check(options)
        if report.interrupted:
            raise RunEnded(report.ended_by)
        for case in report.cases:
            append_row(folder / "orders.jsonl", make_row(case))
        shutil.rmtree(cache / "artifacts", ignore_errors=True)
        shutil.rmtree(cache / "replays", ignore_errors=True)


def render_programs(seeds: Sequence[int], *, twins: bool) -> str:
    """Returns the source of a case file."""
    source = render_case_file(list(map(draw_program, seeds)), "Programs.", reference=twins)
    return source + _TWINNED if twins else source


def make_row(case: CaseReport) -> OrdersRow:
    """Returns the row of a program."""
    seed = int(case.id.partition("[")[2].rstrip("]").partition("-")[0])
    replay = case.replay
    orders = replay.orders if replay is not None else None
    numbers = replay.outputs if replay is not None else {}
    why = case.error or (replay.reason if replay is not None and not replay.outputs else "")
    return OrdersRow(
        seed=seed,
        outputs={
            name: (verdict.value, numbers[name].attribution.value if name in numbers else "none")
            for name, verdict in case.outputs.items()
        },
        tried=orders.tried if orders is not None else 0,
        changed={n: (c.order, min(c.error, 1e30)) for n, c in orders.changed.items()} if orders is not None else {},
        unjudged=why or (orders.not_covered if orders is not None else ""),
    )


def load_rows(folder: Path) -> dict[int, OrdersRow]:
    """Returns the complete rows, by seed."""
    path = folder / "orders.jsonl"
    rows: dict[int, OrdersRow] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            row = parse_record(OrdersRow, line)
        except FieldError:
            continue
        rows[row.seed] = row
    return rows


def describe(rows: Sequence[OrdersRow]) -> Iterator[str]:
    """Yields the lines of a summary."""
    for row in rows:
        for name in row.list_missed():
            order, error = row.changed[name]
            yield f"MISSED {row.seed} {name}: fresh, and {error:.2g} from itself with {order}"
    for row in rows:
        if names := row.list_cautious():
            yield f"cautious {row.seed} {' '.join(names)}"
    pairs = Counter(
        (verdict, numbers, "changes" if name in row.changed else "stays")
        for row in rows
        if row.tried
        for name, (verdict, numbers) in row.outputs.items()
    )
    for (verdict, numbers, word), count in sorted(pairs.items()):
        yield f"  {verdict:<10}{numbers:<14}{word:<10}{count:>7}"
    tried = [row for row in rows if row.tried]
    yield f"{len(rows)} programs, {sum(row.tried for row in tried)} orders of {len(tried)} of them"
    yield f"{sum(len(row.list_missed()) for row in rows)} fresh outputs change"
    latent = sum(verdict == Verdict.LATENT for row in tried for verdict, _ in row.outputs.values())
    yield f"{sum(len(row.list_cautious()) for row in rows)} of {latent} latent outputs stay"
    for reason, count in Counter(row.unjudged for row in rows if row.unjudged).most_common(8):
        yield f"not tried, {count}: {reason[:100]}"


app = typer.Typer(help=__doc__, add_completion=False, no_args_is_help=True)


@app.command("run")
def run(  # noqa: PLR0917 - typer reads the options from the signature
    folder: Annotated[Path, typer.Argument(help="Folder for the rows.")],
    count: Annotated[int, typer.Option(min=1, help="Number of programs.")] = 100,
    orders: Annotated[int, typer.Option(min=1, help="Number of orders for each program.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="The first seed.")] = 0,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; as many as there are cores by default.")] = None,
    minutes: Annotated[float, typer.Option(help="Begin no program after that many minutes.")] = 8.0,
    corpus: Annotated[
        bool, typer.Option("--corpus", help="Take programs of the corpus; --seed is then a position in it.")
    ] = False,
    twins: Annotated[bool, typer.Option("--twins", help="Add to each program its formulas without kernels.")] = False,
    target: Annotated[str, typer.Option(help="The GPU to compile for.")] = "h100",
) -> None:
    """Run the missing programs; exit code 1 if a fresh output changes, 2 if programs are left."""
    folder.mkdir(parents=True, exist_ok=True)
    known = load_rows(folder)
    if known and (folder / TWINS).exists() != twins:
        raise typer.BadParameter("expected another folder: programs with twins need their own")
    if twins:
        (folder / TWINS).touch()
    chosen = sorted(read_corpus(CORPUS))[seed : seed + count] if corpus else range(seed, seed + count)
    seeds = [one for one in chosen if one not in known]
    processes = min(jobs or count_cores(), -(-len(seeds) // 4)) if seeds else 0
    until = time.time() + 60 * minutes
    workloads = [
        Workload(
            directory=str(folder.resolve()),
            seeds=tuple(seeds[number::processes]),
            target=target,
            timeout=120.0,
            until=until,
            orders=orders,
        )
        for number in range(processes)
    ]

    def report_progress(progress: Progress) -> None:
        typer.echo(f"{progress.done}/{progress.total}", err=True)

    faults = run_workloads("tools.orders", workloads, folder / "orders.jsonl", report_progress)
    for fault in faults:
        typer.echo(fault, err=True)
    for cache in folder.glob("cache-*"):
        shutil.rmtree(cache, ignore_errors=True)
    _finish(folder, set(chosen))


@app.command("show")
def show(folder: Annotated[Path, typer.Argument(help="Folder of an earlier run.")]) -> None:
    """Show the results so far."""
    _finish(folder, set())


def _finish(folder: Path, wanted: set[int]) -> None:
    rows = load_rows(folder)
    shown = [row for number, row in sorted(rows.items()) if not wanted or number in wanted]
    for line in describe(shown):
        typer.echo(line)
    left = len(wanted - rows.keys())
    if left:
        typer.echo(f"{left} programs are left; the same command continues")
    raise typer.Exit(1 if any(row.list_missed() for row in shown) else 2 if left else 0)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        app()
    else:
        serve_workload(judge_workload)
