"""A public report of in-place trouble: where it is, what was wrong, and which answer of a tool counts as having found it.

A file of `benchmark/reports/` defines

- `REPORT`, a `Report`;
- `BAD`, a `Case` with the structure that was reported, and `CURED`, its cured twin, which must be clean. For a module that
  today's JAX does not make, both are names of `.hlo` files in the same folder;
- `CASES = (BAD, CURED)` if they are cases, so that `ligerdiag check benchmark/reports/FILE` works as for any user.

A report out of reach has `Report.unreachable` and neither of the programs.

The author of a file decides `Report.finds` from the report, before any tool sees the program: it names the wrong outputs or
the wrong line, never a rule. A line is named by a mark, a comment `# at: NAME` (`// at: NAME` in HLO), because comments
survive when the runner gives all identifiers other names.
"""

import importlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ligerdiag.model.case import Case

FOLDER = Path(__file__).parent / "reports"
_MARK = re.compile(r"(?:#|//) at: (\w+)\s*$")
_INSTRUCTION = re.compile(r"\s*(?:ROOT )?%?([\w.-]+) = ")


class Kind(StrEnum):
    """How the program went wrong."""

    STALE = "stale"
    """A reader has the contents from before a write that it should see."""
    CLOBBERED = "clobbered"
    """A reader, or the caller, has the contents after a write that it should not see."""
    MOVED_BY_JAX = "moved by JAX"
    """JAX itself moved, dropped or merged a read or a call before XLA saw the program."""
    SHARED_BYTES = "shared bytes"
    """Two values that are alive at once have the same bytes."""
    UNWRITTEN_READ = "unwritten read"
    """A value is used of which nobody has written some bytes."""
    LOST_UPDATE = "lost update"
    """Of several updates of the same bytes one is missing, or the outcome depends on their order."""
    REPEATED_UPDATE = "repeated update"
    """An update is applied more often than the program says."""
    WRONG_DECLARATION = "wrong declaration"
    """The declared effects of a call are not its real ones."""
    OUT_OF_BOUNDS = "out of bounds"
    """A kernel reads or writes outside of its operands."""
    SILENT_COPY = "silent copy"
    """The result is right, but a whole array is copied for work that was to be in place."""
    VOID_DONATION = "void donation"
    """The result is right, but no output takes the bytes of a donated argument."""
    MEMORY_DRIFT = "memory drift"
    """After a change or an upgrade the same program needs more memory."""
    OVERLAP = "overlap"
    """Two operations that nothing orders run at once on the same bytes."""
    MISCOMPILE = "miscompile"
    """The compiler computes other numbers, with no write in place involved."""
    NO_COMPILE = "does not compile"
    """The program is refused for its GPU, which its author learned on the GPU."""
    OUT_OF_REACH = "out of reach"
    """The mistake is in a runtime, a driver, an allocator or the host; `Report.unreachable` says why no program shows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrong:
    """The wrong answer of the bad program, as its author derived it; a tool has to point at one of these."""

    outputs: tuple[str, ...] = ()
    """Names of outputs with wrong values: a tool that calls one of them wrong has found the report."""
    at: tuple[str, ...] = ()
    """Marks of lines: a tool that reports the kind of mistake at one of them has found the report."""
    kinds: tuple[Kind, ...] = ()
    """The kinds that count, if they are others than `Report.kind` alone; `Report.kind` is then among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One public report."""

    link: str
    """Address of the issue or pull request."""
    year: int
    versions: str
    """The versions that the report names, such as `jax 0.7.2, H100`; `not said` if it names none."""
    kind: Kind
    reported: str
    """The mistake that was reported, in one sentence of our own."""
    finds: Wrong = Wrong()
    toolchain: str = ""
    """Name of the toolchain whose compilers make the mistake, if those of the default one do not any more."""
    unreachable: str = ""
    """Why no program of ours can show the mistake; empty if one does."""
    missed: str = ""
    """Why ligerdiag misses it or leaves it unknown, in one sentence; empty if ligerdiag finds it."""
    revised: str = ""
    """The change of `finds` or of a program's meaning after ligerdiag had judged them once; empty if there was none."""
    like: str = ""
    """Name of another report whose program differs in little more than a formula; empty if there is none."""

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Returns the kinds of mistake that count as this report's."""
        return self.finds.kinds or (self.kind,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A file of the benchmark."""

    name: str
    """Stem of the file, such as `jax_39449`."""
    file: Path
    report: Report
    bad: Case | Path | None
    """The program as reported: a case, the path of an HLO module, or None if it is out of reach."""
    cured: Case | Path | None

    @property
    def title(self) -> str:
        """Returns the report's short name, such as `jax-ml/jax#39449`."""
        place = re.fullmatch(r"https://github\.com/([^/]+/[^/]+)/(?:issues|pull|discussions)/(\d+)", self.report.link)
        return f"{place[1]}#{place[2]}" if place else "/".join(self.report.link.split("/")[3:5]).partition("#")[0]


def list_names() -> tuple[str, ...]:
    """Returns the stems of all files of the benchmark, sorted by project and number."""
    names = [file.stem for file in FOLDER.glob("*.py") if file.stem != "__init__"]
    return tuple(sorted(names, key=lambda name: (name.rpartition("_")[0], name.rpartition("_")[2].zfill(9))))


def load_entry(name: str) -> Entry:
    """Imports a file of the benchmark and returns its contents. name: its stem.

    Raises ValueError if the file lacks a part, or if its parts contradict each other.
    """
    module = importlib.import_module(f"benchmark.reports.{name}")
    report = getattr(module, "REPORT", None)
    if not isinstance(report, Report):
        raise ValueError(f"Expected REPORT, a Report, in {name}.py but got {report!r}")
    bad, cured = (_read_program(name, part, getattr(module, part, None)) for part in ("BAD", "CURED"))
    entry = Entry(name=name, file=FOLDER / f"{name}.py", report=report, bad=bad, cured=cured)
    _validate(entry)
    return entry


def read_marks(file: Path) -> Mapping[int, str]:
    """Returns the marks of a Python file or an HLO module: from 1-based line number to name."""
    lines = enumerate(file.read_text().splitlines(), start=1)
    return {number: mark[1] for number, line in lines if (mark := _MARK.search(line))}


def read_marked_instructions(file: Path) -> Mapping[str, str]:
    """Returns the marks of an HLO module: from the name of the instruction on the line, without `%`, to the mark."""
    lines = file.read_text().splitlines()
    return {found[1]: mark[1] for line in lines if (mark := _MARK.search(line)) and (found := _INSTRUCTION.match(line))}


def _read_program(name: str, part: str, value: object) -> Case | Path | None:
    match value:
        case None | Case():
            return value
        case str():
            return FOLDER / value
        case _:
            raise ValueError(f"Expected {part} of {name}.py to be a Case or the name of a file but got {value!r}")


def _validate(entry: Entry) -> None:
    report = entry.report
    if (entry.bad is None) != bool(report.unreachable) or (entry.bad is None) != (entry.cured is None):
        raise ValueError(f"Expected BAD and CURED, or Report.unreachable, in {entry.name}.py")
    if entry.bad is None:
        return
    if not (report.finds.outputs or report.finds.at):
        raise ValueError(f"Expected outputs or a mark in Report.finds of {entry.name}.py")
    if report.finds.kinds and report.kind not in report.finds.kinds:
        raise ValueError(f"Expected {report.kind} among Report.finds.kinds of {entry.name}.py")
    marks = set(read_marks(entry.bad if isinstance(entry.bad, Path) else entry.file).values())
    if missing := set(report.finds.at) - marks:
        raise ValueError(f"Expected a line with `# at: {missing.pop()}` for Report.finds of {entry.name}.py")
