"""Random programs whose words are known, judged once more by their schedules alone: `python -m tools.corpus --help`.

A mend of the verdict may break others. The words of a campaign's programs, which their numbers gave, hold for every later
state of the code; a program costs some 0.6 processor seconds where nothing is replayed. The file has a line a program: its
seed, and a letter for each output, by name in order:

    r   right
    x   right, and called wrong when it was added
    w   wrong
    -   nobody knows

It says which programs the generator drew: if it draws others now, the verdicts do not belong to them.
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
from tools.fuzz.judged_programs import CALLED_RIGHT, CALLED_WRONG, JudgedProgram, find_words, judge_case, load_known
from tools.fuzz.more_draws import Word
from tools.fuzz.source import render_case_file

CORPUS = Path(__file__).parents[1] / "tests" / "fuzz" / "corpus.txt"
"""Programs judged with jax-triton before 0.4; those of 0.4.1 are in corpus_newest.txt: its schedules are others."""
_BATCH, _DRAWN = 48, 20
_LETTERS: Mapping[str, str] = {Word.RIGHT.value: "r", Word.WRONG.value: "w"}

type Verdicts = Mapping[int, Mapping[str, Verdict]]
"""Seed to output names to verdicts."""


class CorpusError(Exception):
    """The file's words are of other programs, or a program was not judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """Verdicts of some programs, compared with the recorded ones."""

    programs: int = 0
    wrong: int = 0
    """Outputs."""
    right: int = 0
    """Outputs."""
    missed: tuple[str, ...] = ()
    """Wrong outputs that are called right: seed and name."""
    alarms: tuple[str, ...] = ()
    """Right outputs that are called wrong and were not when they were added: seed, name and verdict."""
    known_alarms: int = 0
    """Right outputs that are called wrong as ever."""


def read_corpus(path: Path) -> dict[int, str]:
    """Returns seeds to letters. Raises CorpusError where the generator draws other programs than these."""
    first, *lines = path.read_text(encoding="utf-8").splitlines()
    words = {int(seed): letters for seed, letters in (line.split() for line in lines)}
    if first != f"# {_fingerprint(words)}":
        raise CorpusError(
            f"`python -m tools.fuzz` draws other programs now than those of `{path}`: judge new ones and add them"
        )
    return words


def write_corpus(path: Path, words: Mapping[int, str]) -> None:
    """Writes seeds and letters."""
    lines = [f"{seed} {letters}" for seed, letters in sorted(words.items())]
    path.write_text("\n".join([f"# {_fingerprint(words)}", *lines, ""]), encoding="utf-8")


def spell(row: JudgedProgram) -> str:
    """Returns the letters of a program."""
    words = find_words(row)
    called_wrong = {name for name, (verdict, _) in row.outputs.items() if verdict in CALLED_WRONG}
    return "".join(
        "x" if words[name] == Word.RIGHT.value and name in called_wrong else _LETTERS.get(words[name], "-")
        for name in sorted(words)
    )


def judge(words: Mapping[int, str], *, target: str = "h100", jobs: int | None = None) -> Iterator[Verdicts]:
    """Yields the verdicts batch after batch. Raises CorpusError."""
    seeds = sorted(words)
    with tempfile.TemporaryDirectory() as folder:
        for start in range(0, len(seeds), _BATCH):
            yield _find_verdicts(seeds[start : start + _BATCH], Path(folder), target, jobs)


def compare(verdicts: Verdicts, words: Mapping[int, str]) -> Judged:
    """Compares verdicts of programs with their letters. Raises CorpusError if these are of other outputs."""
    pairs: list[tuple[str, str, Verdict]] = []
    for seed, outputs in verdicts.items():
        if len(outputs) != len(words[seed]):
            raise CorpusError(f"program {seed} has {len(outputs)} outputs, and {len(words[seed])} letters")
        named = sorted(outputs.items())
        pairs += [(letter, f"{seed} {name}", one) for letter, (name, one) in zip(words[seed], named, strict=True)]
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
    """Of the first programs."""
    programs = list(map(draw_program, sorted(seeds)[:_DRAWN]))
    return hashlib.sha256(render_case_file(programs, "", reference=False).encode()).hexdigest()


app = typer.Typer(help=__doc__, add_completion=False, no_args_is_help=True)


@app.command("judge")
def judge_corpus(
    every: Annotated[int, typer.Option(min=1, help="Only one program in so many.")] = 1,
    skip: Annotated[int, typer.Option(min=0, help="Leave out so many first, as an ended run may have judged.")] = 0,
    first: Annotated[int, typer.Option(min=0, help="The least seed.")] = 0,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; as many as there are cores by default.")] = None,
    corpus: Annotated[Path, typer.Option(help="The file of programs and words.")] = CORPUS,
) -> None:
    """Judge the programs; exit code 1 where a verdict is new and wrong, 2 where programs were not judged."""
    verdicts: dict[int, Mapping[str, Verdict]] = {}
    try:
        known = sorted(pair for pair in read_corpus(corpus).items() if pair[0] >= first)
        words = dict(known[skip::every])
        for batch in judge(words, jobs=jobs):
            verdicts |= batch
            found = compare(batch, words)
            for line in (*found.missed, *found.alarms):
                typer.echo(line)
            typer.echo(f"{len(verdicts)}/{len(words)}", err=True)
    except CorpusError as error:
        typer.echo(error, err=True)
        raise typer.Exit(2) from error
    found = compare(verdicts, words)
    typer.echo(f"{found.programs} programs: {len(found.missed)} of {found.wrong} wrong outputs are called right")
    typer.echo(
        f"{found.known_alarms} of {found.right} right ones are called wrong as ever, {len(found.alarms)} are new"
    )
    raise typer.Exit(bool(found.missed or found.alarms))


@app.command("add")
def add_programs(
    files: Annotated[list[Path], typer.Argument(help="`programs.jsonl` of campaigns without a GPU.")],
    corpus: Annotated[Path, typer.Option(help="The file of programs and words.")] = CORPUS,
) -> None:
    """Add the programs of campaigns to the file."""
    words = read_corpus(corpus) if corpus.exists() else {}
    for path in files:
        words |= {row.seed: spell(row) for row in load_known(JudgedProgram, path) if row.outputs and row.looks}
    write_corpus(corpus, words)
    typer.echo(f"{len(words)} programs in {corpus.name}")


if __name__ == "__main__":
    sys.exit(app())
