"""`ligerdiag fix`: changes the source so that every output is fresh, and proves that the changed program is right."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from ligerdiag.cli.exit_codes import MEANINGS_OF_FIX, ExitCode, choose_exit_code, find_ending_code, render_table
from ligerdiag.cli.options import (
    AnswerForm,
    Config,
    ReplayBounds,
    make_command,
    parse_targets,
    read_settings,
)
from ligerdiag.cli.output import AnswerFormat, Format, Outputs, write_atomically
from ligerdiag.cli.verbosity import Verbosity, show_progress
from ligerdiag.ending import Ending, EndWatch, watch_for_end, work_until_ended
from ligerdiag.errors import InputError, LigerdiagError
from ligerdiag.run_options import DEFAULT_TARGETS, Cache, CheckOptions, Jobs, Option, Targets, Timeout, ToolchainName
from ligerdiag.source_text import compute_near
from ligerdiag.toolchains.toolchain_table import DEFAULT

if TYPE_CHECKING:
    from ligerdiag.fix.records import CaseFix

HELP = """How do I make a case right? Tries the known cures on a copy of the source, judges each changed
program as `ligerdiag check` does, and prints the diff that makes every output fresh and
leaves the fewest findings, then takes the least memory, then is the smallest; with its
cost. Your files are not touched without --write.

A cure is proved if every output is fresh, the replay agrees, no new finding appears, and
the changed program computes the same as the program as written, run line by line. It is
refused if it makes another case of the changed files worse. If none is proved alone, two
are tried together.

\b
Cures; of equal ones the first is printed:
  declare        an output of the call that aliases the operand
  call-in-place  the same by `ligerdiag.in_place.call_in_place`
  out-of-place   the kernel stores into an output with bytes of its own
  shard-map      each device calls the kernel on its own rows
  barrier        later readers wait for the kernel
  keep-apart     barriers around a call that XLA fuses with slices
  zero-outputs   the launcher zeroes an output that the kernel leaves unwritten
  mode           another value of a wrapper's argument, such as in_place=False
  traced-zeros   zeros that JAX does not move out of a loop
  filled         zeros in memory that nothing has written
  one-alias      each operand and each output in one alias at most
  no-donation    one donation fewer
  keep-unused    keep_unused=True for a donated argument that is never read
  xla-flag       a flag of XLA, if the fault is XLA's
Unsafe, only with --unsafe: ref, copy, donate (a Ref, a copy, a donated argument).
"""

EPILOG = f"""\b
Examples:
  ligerdiag fix mine.py                       the diff and its cost
  ligerdiag fix mine.py --diff | git apply    the diff alone, applied by git
  ligerdiag fix mine.py --write               writes it
  ligerdiag fix mine.py --cure barrier        only this cure
  ligerdiag fix mine.py --target a100,h100    right on both GPUs

\b
Exit codes:
{render_table(MEANINGS_OF_FIX)}
"""


@dataclass(frozen=True, kw_only=True)
class FixLine(ReplayBounds):
    """The options of `fix`: which cases to make right, with which cures, and where the diff goes."""

    selectors: Annotated[
        tuple[str, ...], Option(help="Cases, as ids, globs, files, or module:name.", show_default=False)
    ] = ()
    targets: Targets = ()
    toolchain: ToolchainName = DEFAULT
    write: Annotated[bool, Option("--write", help="Write the diff into your files.")] = False
    diff: Annotated[bool, Option("--diff", help="Print the diff alone, for `git apply`.")] = False
    cures: Annotated[
        tuple[str, ...],
        Option(
            "--cure", metavar="NAMES", help="Try only these cures, such as declare,barrier. Repeatable. [default: all]"
        ),
    ] = ()
    unsafe: Annotated[
        bool,
        Option(
            "--unsafe",
            help="Also try cures that depend on code that no case runs. Also offer cures that are right by luck or not "
            "proved.",
        ),
    ] = False
    other_cases: Annotated[
        int,
        Option(
            "--other-cases",
            metavar="N",
            min=0,
            help="Judge up to N other cases that load the changed files, too: none may become worse.",
        ),
    ] = 8
    format: AnswerForm = AnswerFormat.TERMINAL
    jobs: Jobs = None
    timeout: Timeout = 300.0
    cache_directory: Cache = None
    config: Config = None


def _require_libcst() -> None:
    from ligerdiag.missing_packages import describe_missing, is_missing

    if is_missing("libcst"):
        raise LigerdiagError(describe_missing("changing your source", "libcst"))


def require_fixable(outputs: Outputs) -> None:
    """Raises InputError if `check --fix` would print its diffs into a report in a format for programs, such as JSON.
    Raises LigerdiagError if a package is missing.
    """
    if outputs.shown is not Format.TERMINAL:
        raise InputError(
            f"`--fix` prints diffs after the terminal's report: leave out `--format {outputs.shown.value}`"
        )
    _require_libcst()


def print_fixes(options: CheckOptions, verbosity: Verbosity, watch: EndWatch) -> Ending | None:
    """Prints, after a report of `check`, the cure of each case that has findings. Writes no file of the user's. Returns
    the event that ended the search early; None if it was complete. watch: the handler of signals of this run.
    """
    from ligerdiag.fix.cure_search import FixOptions, find_fixes
    from ligerdiag.fix.words import render_fix

    fixes: tuple[CaseFix, ...] = ()
    ending = watch.missed
    if ending is None:
        with show_progress(verbosity) as show, work_until_ended(again=True) as work:
            fixes = find_fixes(FixOptions(check=replace(options, record=False, view=False)), show)
        ending = work.ending
    if ending is not None:
        sys.stderr.write(
            f"fix: no cure was found before {ending.value} ended the search; run the same command again to continue\n"
        )
        return ending
    for one in fixes:
        if one.hazards:
            shown = replace(one, not_covered=())  # the report has them
            sys.stdout.write("\n" + render_fix(shown, is_unsafe=False, is_written=False))
    return None


def run_fix(line: FixLine) -> None:
    """Searches for cures, prints or writes them, and ends the process with the exit code."""
    _require_libcst()
    from ligerdiag.fix.cure_search import FixOptions, find_fixes

    if line.diff and line.format is AnswerFormat.JSON:
        raise InputError("`--diff` and `--format json` exclude each other: the JSON has the diff of each attempt")
    settings = read_settings(line.config, fail_on=None, strict=None)
    usual = settings.config.targets or DEFAULT_TARGETS
    checked = CheckOptions(
        selectors=line.selectors,
        toolchain=line.toolchain,
        jobs=line.jobs,
        timeout=line.timeout,
        cache_directory=line.cache_directory,
        targets=parse_targets(line.targets) or usual,
        usual_targets=usual,
        bounds=line.make_bounds(),
        suppress=settings.config.suppress,
        effects=settings.config.effects,
    )
    options = FixOptions(
        check=checked, cures=parse_targets(line.cures), is_unsafe=line.unsafe, other_cases=line.other_cases
    )
    fixes: tuple[CaseFix, ...] = ()
    with watch_for_end():
        with show_progress(Verbosity.USUAL) as show, work_until_ended() as work:
            fixes = find_fixes(options, show)
        if work.ending is not None:
            sys.stderr.write("nothing is written\n")
            raise typer.Exit(find_ending_code(work.ending))
        _answer(line, fixes)


def _answer(line: FixLine, fixes: "tuple[CaseFix, ...]") -> NoReturn:
    """Prints or writes the cures, and ends the process with the exit code."""
    from ligerdiag.fix.fix_json import render_fixes_json
    from ligerdiag.fix.words import render_fix

    if line.write or line.diff:
        _require_one([one.case_id for one in fixes if one.best is not None])
    written = write_changes(fixes) if line.write else set[str]()
    code = choose_exit_code([ExitCode.AS_EXPECTED, *(_compute_code(one, written) for one in fixes)])
    if line.format is AnswerFormat.JSON:
        sys.stdout.write(render_fixes_json(fixes, written=written, exit_code=code))
        raise typer.Exit(code)
    for fix in fixes:
        if line.diff:
            sys.stdout.write(fix.best.diff if fix.best is not None and fix.case_id not in written else "")
        else:
            sys.stdout.write(render_fix(fix, is_unsafe=line.unsafe, is_written=fix.case_id in written))
    if not fixes:
        sys.stdout.write("nothing to fix\n")
    raise typer.Exit(code)


def _require_one(curable: Sequence[str]) -> None:
    """Raises InputError if several cases have a cure, because each cure is proved without the cures of the other cases."""
    if len(curable) > 1:
        raise InputError(
            f"`--write` and `--diff` take one case at a time, and {len(curable)} have a cure, each proved without the"
            f" others: name one, such as `{curable[0]}`, and run `fix` again for the next; nothing is written"
        )


def write_changes(fixes: "tuple[CaseFix, ...]") -> set[str]:
    """Writes all changed files of each offered cure, or none of them. Returns the ids of the cases whose cure is written.
    Raises InputError if a file cannot be written, or has changed since `fix` read it.
    """
    written: set[str] = set()
    for fix in fixes:
        if fix.best is None:
            continue
        for path, text in fix.best.originals.items():
            if not path.is_file() or path.read_bytes() != text:
                raise InputError(
                    f"`{compute_near(str(path))}` has changed since `fix` read it: run `fix` again; nothing is written"
                )
        done: list[Path] = []
        try:
            for path, text in fix.best.files.items():
                _replace_text(path, text)
                done.append(path)
        except BaseException:
            for path in done:
                _replace_text(path, fix.best.originals[path])
            raise
        written.add(fix.case_id)
    return written


def _replace_text(path: Path, text: bytes) -> None:
    """Replaces the contents of a file atomically, and keeps its permissions."""
    mode = path.stat().st_mode
    write_atomically(path, text)
    path.chmod(mode & 0o7777)


def _compute_code(fix: "CaseFix", written: set[str]) -> ExitCode:
    if fix.error:
        return ExitCode.INPUT if fix.exit_code == ExitCode.INPUT else ExitCode.NOT_ANALYSED
    if fix.best is None:
        return ExitCode.INCONCLUSIVE if fix.hazards else ExitCode.AS_EXPECTED
    return ExitCode.AS_EXPECTED if fix.case_id in written else ExitCode.FINDINGS


fix = make_command(
    FixLine,
    run_fix,
    "selectors targets toolchain cures unsafe other_cases write diff format jobs timeout cache_directory replay_seconds "
    "replay_memory full config",
)
