"""Judges random programs with known answers by their schedules alone: `python -m tools.corpus --help`.

A fix of the verdict may break other programs. The answers of a campaign's programs come from their numbers, so they
hold for every later state of the code; a program costs some 0.6 processor seconds without replay. The file has one line
for each program: its seed, and a letter for each output, in the order of their names:

    r   right
    x   right, but called wrong when it was added
    w   wrong
    -   unknown

The file identifies the programs that the generator drew: if the generator now draws others, the letters do not apply to
them.
"""

import hashlib
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from ligerdiag.api.checking import check
from ligerdiag.model.findings import Verdict
from ligerdiag.run_options import CheckOptions
from tools.fuzz.drawing import draw_program
from tools.fuzz.judged_programs import CALLED_RIGHT, CALLED_WRONG, JudgedProgram, find_outcomes, judge_case, load_known
from tools.fuzz.more_draws import Word
from tools.fuzz.source import render_case_file

CORPUS = Path(__file__).parents[1] / "tests" / "fuzz" / "corpus.txt"
"""Programs judged with jax-triton before 0.4. Those of 0.4.1, whose schedules differ, are in corpus_newest.txt."""
_BATCH, _DRAWN = 48, 20
_LETTERS: Mapping[str, str] = {Word.RIGHT.value: "r", Word.WRONG.value: "w"}

type Verdicts = Mapping[int, Mapping[str, Verdict]]
"""Seed to output names to verdicts."""


class CorpusError(Exception):
    """The file's letters belong to other programs, or a program was not judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """Verdicts of some programs, compared with the recorded ones."""

    programs: int = 0
    wrong: int = 0
    """Number of wrong outputs."""
    right: int = 0
    """Number of right outputs."""
    missed: tuple[str, ...] = ()
    """Wrong outputs that are called right: seed and name."""
    alarms: tuple[str, ...] = ()
    """Right outputs that are called wrong and were not when they were added: seed, name and verdict."""
    known_alarms: int = 0
    """Right outputs that are called wrong, as before."""


def read_corpus(path: Path) -> dict[int, str]:
    """Returns seeds to letters. Raises CorpusError if the generator draws other programs than these."""
    first, *lines = path.read_text(encoding="utf-8").splitlines()
    programs = {int(seed): letters for seed, letters in (line.split() for line in lines)}
    if first != f"# {_fingerprint(programs)}":
        raise CorpusError(
            f"`python -m tools.fuzz` draws other programs now than those of `{path}`: judge new ones and add them"
        )
    return programs


def write_corpus(path: Path, programs: Mapping[int, str]) -> None:
    """Writes seeds and letters."""
    lines = [f"{seed} {letters}" for seed, letters in sorted(programs.items())]
    path.write_text("\n".join([f"# {_fingerprint(programs)}", *lines, ""]), encoding="utf-8")


def spell(row: JudgedProgram) -> str:
    """Returns the letters of a program."""
    letters = find_outcomes(row)
    called_wrong = {name for name, (verdict, _) in row.outputs.items() if verdict in CALLED_WRONG}
    return "".join(
        "x" if letters[name] == Word.RIGHT.value and name in called_wrong else _LETTERS.get(letters[name], "-")
        for name in sorted(letters)
    )


def judge(letters: Mapping[int, str], *, target: str = "h100", jobs: int | None = None) -> Iterator[Verdicts]:
    """Yields the verdicts of one batch after another. Raises CorpusError."""
    seeds = sorted(letters)
    with tempfile.TemporaryDirectory() as folder:
        for start in range(0, len(seeds), _BATCH):
            yield _find_verdicts(seeds[start : start + _BATCH], Path(folder), target, jobs)


def compare(verdicts: Verdicts, letters: Mapping[int, str]) -> Judged:
    """Compares the verdicts of programs with their letters. Raises CorpusError if the numbers of outputs differ."""
    pairs: list[tuple[str, str, Verdict]] = []
    for seed, outputs in verdicts.items():
        if len(outputs) != len(letters[seed]):
            raise CorpusError(f"program {seed} has {len(outputs)} outputs, and {len(letters[seed])} letters")
        named = sorted(outputs.items())
        pairs += [(letter, f"{seed} {name}", one) for letter, (name, one) in zip(letters[seed], named, strict=True)]
    return Judged(
        programs=len(verdicts),
        wrong=sum(letter == "w" for letter, *_ in pairs),
        right=sum(letter in "rx" for letter, *_ in pairs),
        missed=tuple(f"{place} is {one}" for letter, place, one in pairs if letter == "w" and one in CALLED_RIGHT),
        alarms=tuple(f"{place} is {one}" for letter, place, one in pairs if letter == "r" and one in CALLED_WRONG),
        known_alarms=sum(letter == "x" and one in CALLED_WRONG for letter, _, one in pairs),
    )


def _find_verdicts(seeds: Sequence[int], folder: Path, target: str, jobs: int | None) -> Verdicts:
    path = folder / f"programs_{seeds[0]}.py"
    path.write_text(render_case_file(list(map(draw_program, seeds)), "Programs.", reference=False), encoding="utf-8")
    options = CheckOptions(
        selectors=(str(path),),
        targets=(target,),
        usual_targets=(target,),
        jobs=jobs,
        cache_directory=folder / "cache",
        replay=False,
    )
    report = check(options)
    if report.interrupted:
        raise CorpusError("ended")
    cases = report.cases
    shutil.rmtree(folder / "cache" / "artifacts", ignore_errors=True)
    failed = [f"{case.id}: {case.error}" for case in cases if not case.outputs]
    if failed or len(cases) != len(seeds):
        raise CorpusError("; ".join(failed) or f"{len(cases)} of {len(seeds)} programs were judged")
    return {judge_case(case).seed: case.outputs for case in cases}


def _fingerprint(seeds: Iterable[int]) -> str:
    """Returns a hash of the first programs."""
    programs = list(map(draw_program, sorted(seeds)[:_DRAWN]))
    return hashlib.sha256(render_case_file(programs, "", reference=False).encode()).hexdigest()


app = typer.Typer(help=__doc__, add_completion=False, no_args_is_help=True)


@app.command("judge")
def judge_corpus(
    every: Annotated[int, typer.Option(min=1, help="Judge only one program in N.")] = 1,
    skip: Annotated[int, typer.Option(min=0, help="Programs to skip, such as those that an ended run judged.")] = 0,
    first: Annotated[int, typer.Option(min=0, help="The smallest seed.")] = 0,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; as many as there are cores by default.")] = None,
    corpus: Annotated[Path, typer.Option(help="The file of programs and letters.")] = CORPUS,
) -> None:
    """Judge the programs; exit code 1 for a new wrong verdict, 2 if programs were not judged."""
    verdicts: dict[int, Mapping[str, Verdict]] = {}
    try:
        known = sorted(pair for pair in read_corpus(corpus).items() if pair[0] >= first)
        letters = dict(known[skip::every])
        for batch in judge(letters, jobs=jobs):
            verdicts |= batch
            found = compare(batch, letters)
            for line in (*found.missed, *found.alarms):
                typer.echo(line)
            typer.echo(f"{len(verdicts)}/{len(letters)}", err=True)
    except CorpusError as error:
        typer.echo(error, err=True)
        raise typer.Exit(2) from error
    found = compare(verdicts, letters)
    typer.echo(f"{found.programs} programs: {len(found.missed)} of {found.wrong} wrong outputs are called right")
    typer.echo(
        f"{found.known_alarms} of {found.right} right ones are called wrong, as before; {len(found.alarms)} are new"
    )
    raise typer.Exit(bool(found.missed or found.alarms))


@app.command("add")
def add_programs(
    files: Annotated[list[Path], typer.Argument(help="`programs.jsonl` of campaigns without a GPU.")],
    corpus: Annotated[Path, typer.Option(help="The file of programs and letters.")] = CORPUS,
) -> None:
    """Add the programs of campaigns to the file."""
    letters = read_corpus(corpus) if corpus.exists() else {}
    for path in files:
        letters |= {row.seed: spell(row) for row in load_known(JudgedProgram, path) if row.outputs and row.looks}
    write_corpus(corpus, letters)
    typer.echo(f"{len(letters)} programs in {corpus.name}")


if __name__ == "__main__":
    sys.exit(app())
