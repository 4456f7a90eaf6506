"""`ligerdiag fuzz`: is ligerdiag itself right about random programs?"""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ligerdiag.cli.exit_codes import ExitCode, find_ending_code, render_table
from ligerdiag.cli.options import DEFAULT_TARGETS, Jobs, TimeLimit
from ligerdiag.ending import watch_for_end
from ligerdiag.errors import InputError

if TYPE_CHECKING:
    from ligerdiag.fuzz.rows import FuzzReport

HELP = """Is ligerdiag right about programs that nobody has seen? Draws random programs around
kernels that overwrite an operand, compiles, judges and replays each, and says where the
verdict on the schedule and the numbers cannot both be true, and no finding explains it, or
an output that is called fresh is another one in another order that XLA may choose.

A program is drawn from its seed: the same seed, the same program. What is known is in
DIR/programs.jsonl, a line a program; a campaign that was ended goes on where it was.
A contradiction is made smaller while it stays one, and written to DIR/contradictions
as a case file that stands alone: `ligerdiag check` it, mend the bug, keep the file.

With --device each program is run on the GPUs of this machine, spread over them, and judged
by what XLA made of it there: DIR/device.jsonl. One that needs more GPUs is left out.

The programs call their kernels by jax-triton: pip install 'ligerdiag[jax-triton]'. Those of
seeds from 10000000 on are written for jax-triton 0.4 and later, with Refs: of three one is
differentiated, and one has a loop or a jax.checkpoint around a kernel. All run with every
version.
"""

MEANINGS = {
    ExitCode.AS_EXPECTED: "no contradiction in any program of DIR",
    ExitCode.INPUT: "usage or input error",
    ExitCode.NOT_ANALYSED: "contradictions: bugs in ligerdiag; or the --time-limit came first",
    ExitCode.NOTHING_CHECKED: "no program judged",
    ExitCode.INTERRUPTED: "interrupted by Ctrl-C; what was known is kept",
    ExitCode.TERMINATED: "ended by SIGTERM; what was known is kept",
}

EPILOG = f"""\b
Examples:
  ligerdiag fuzz                             a hundred programs
  ligerdiag fuzz --seed 5000 --count 1000    others, and more of them
  nice ligerdiag fuzz --count 3000 --out campaign -j 2
                                             a campaign of days; the same command goes on with it
  ligerdiag fuzz --minutes 30 --count 10000  as many as half an hour allows
  ligerdiag fuzz --target a100 --out a100    compiled for another GPU
  ligerdiag fuzz --scheduler tcp://head:8786 --count 10000
                                             on the workers of a Dask cluster; see docs/sweep.md
  ligerdiag fuzz --device --minutes 8        compiled for the GPUs of this machine, and run on them

\b
Exit codes:
{render_table(MEANINGS)}
"""


def fuzz(  # noqa: PLR0917 - typer reads the options from the signature
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where the campaign is kept.")] = Path("fuzz"),
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed",
            min=0,
            metavar="N",
            help="The first seed. [default: 0; with jax-triton 0.4 and later 10000000]",
            show_default=False,
        ),
    ] = None,
    count: Annotated[int, typer.Option("--count", min=1, metavar="N", help="Seeds, from the first on.")] = 100,
    minutes: Annotated[
        float | None,
        typer.Option("--minutes", min=0.0, metavar="N", help="Begin nothing new after that. [default: none]"),
    ] = None,
    target: Annotated[str, typer.Option("--target", metavar="NAME", help="The GPU to compile for.")] = DEFAULT_TARGETS[
        0
    ],
    jobs: Jobs = None,
    timeout: Annotated[
        float,
        typer.Option("--timeout", min=0.001, metavar="SECONDS", help="Longest to compile a program, and to replay it."),
    ] = 120.0,
    time_limit: TimeLimit = None,
    device: Annotated[
        bool,
        typer.Option("--device", help="Run each on the GPUs of this machine, too, and judge what it compiles there."),
    ] = False,
    scheduler: Annotated[
        str | None,
        typer.Option("--scheduler", metavar="ADDRESS", help="Judge them on the workers of a Dask scheduler."),
    ] = None,
    orders: Annotated[
        int,
        typer.Option("--orders", min=0, metavar="N", help="Replay each schedule in N other legal orders, too."),
    ] = 4,
    shrink: Annotated[bool, typer.Option("--shrink/--no-shrink", help="Make contradictions smaller.")] = True,
) -> None:
    """Runs the campaign and exits with its code."""
    from ligerdiag.fuzz.campaign import run_campaign
    from ligerdiag.fuzz.device import run_device_campaign
    from ligerdiag.fuzz.rows import FuzzOptions
    from ligerdiag.report.terminal.full_report import ProgressDisplay

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"expected a folder for --out but `{out}`: {error.strerror}") from error
    options = FuzzOptions(
        directory=out.resolve(),
        first=find_first_seed() if seed is None else seed,
        count=count,
        minutes=minutes,
        target=target,
        jobs=jobs,
        timeout=timeout,
        orders=orders,
        shrink=shrink,
        scheduler=scheduler,
    )
    if device and scheduler is not None:
        raise InputError("expected `--device` or `--scheduler`: the GPUs of this machine are not the workers'")
    with watch_for_end(time_limit):
        with ProgressDisplay(sys.stderr) as show:
            report = (run_device_campaign if device else run_campaign)(options, show)
        sys.stdout.write(render_fuzz_report(report))
    raise typer.Exit(compute_exit_code(report))


def find_first_seed() -> int:
    """Returns the seed from which on the programs are in the idiom of the jax-triton that is installed."""
    from ligerdiag.fuzz.programs import REFS

    try:
        version = metadata.version("jax-triton")
    except metadata.PackageNotFoundError:
        return 0
    return REFS if [int(part) for part in version.split(".")[:2]] >= [0, 4] else 0


def compute_exit_code(report: "FuzzReport") -> ExitCode:
    """Returns 130 or 143 for a run that was ended, else what all programs of the directory say."""
    if report.ended_by is not None:
        return find_ending_code(report.ended_by)
    if not report.rows:
        return ExitCode.NOTHING_CHECKED
    return ExitCode.NOT_ANALYSED if report.list_contradictions() else ExitCode.AS_EXPECTED


def render_fuzz_report(report: "FuzzReport") -> str:
    """Returns the table of verdicts by numbers, every contradiction, and what a program costs."""
    outputs = report.count_outputs()
    numbers = list(dict.fromkeys(number for _, number in sorted(outputs)))
    lines = [f"{len(report.rows)} programs, {sum(outputs.values())} outputs: verdict by what their numbers say"]
    lines += [_render_row("", numbers)]
    for verdict in dict.fromkeys(verdict for verdict, _ in sorted(outputs)):
        lines.append(_render_row(verdict, [str(outputs[verdict, number]) for number in numbers]))
    lines += ["", *_render_shares(outputs), *_render_kinds(report)]
    contradictions = report.list_contradictions()
    lines += ["", f"{len(contradictions)} contradictions" + (":" if contradictions else "")]
    lines += [f"  seed {seed}: {words}" for seed, words in contradictions]
    lines += [f"  written: {path}" for path in report.files]
    if limits := report.count_excused():
        lines += [f"beside these {limits} around a loop that XLA unrolled"]
    if unjudged := report.list_unjudged():
        lines += ["", f"{len(unjudged)} without numbers:", *(f"  seed {seed}: {words}" for seed, words in unjudged)]
    if report.left_out:
        lines += ["", f"{report.left_out} programs left out: they need more GPUs than there are"]
    if report.faults:
        lines += ["", *report.faults, "the same command goes on with what is missing"]
    if report.judged:
        lines += [
            "",
            f"this run: {report.judged} programs, {report.seconds / report.judged:.1f} processor seconds each",
        ]
    return "\n".join(lines) + "\n"


def _render_shares(outputs: Mapping[tuple[str, str], int]) -> Iterator[str]:
    """Yields how many wrong outputs are called right, and how many right ones wrong."""
    from ligerdiag.fuzz.rows import CALLED_RIGHT, CALLED_WRONG

    for words, called, phrase in (("wrong", CALLED_RIGHT, "called right"), ("right", CALLED_WRONG, "called wrong")):
        every = sum(count for (_, said), count in outputs.items() if said == words)
        found = sum(count for (verdict, said), count in outputs.items() if said == words and verdict in called)
        share = f" ({found / every:.1%})" if every else ""
        yield f"{found} of {every} {words} outputs are {phrase}{share}"


def _render_kinds(report: "FuzzReport") -> Iterator[str]:
    """Yields a table of the programs with Refs by what is due in them, where there are any."""
    from ligerdiag.fuzz.programs import KINDS, find_kind
    from ligerdiag.fuzz.rows import CALLED_RIGHT, CALLED_WRONG, find_words

    counts: Counter[tuple[str, str]] = Counter()
    for seed, row in report.rows.items():
        kind = find_kind(seed)
        if kind is None:
            continue
        counts[kind, "programs"] += 1
        for (verdict, _), words in zip(row.outputs.values(), find_words(row).values(), strict=True):
            counts[kind, words] += 1
            counts[kind, "missed"] += words == "wrong" and verdict in CALLED_RIGHT
            counts[kind, "false"] += words == "right" and verdict in CALLED_WRONG
    if counts:
        columns = ("programs", "wrong", "missed", "right", "false")
        yield ""
        yield _render_row("", columns)
        for kind in KINDS:
            yield _render_row(kind, [str(counts[kind, column]) for column in columns])


def _render_row(name: str, cells: Sequence[str]) -> str:
    return f"  {name:<16}" + "".join(f"{cell:>14}" for cell in cells)
