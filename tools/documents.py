"""Runs the commands of README.md and docs/ as a reader would run them.

A page is run from top to bottom in a folder of its own, which has only the clone's `cases/` and `kernels/`:

- A Python block whose first line is `# name.py` becomes that file; so does a TOML block.
- A block in `sh`, or a text block that begins with `$ `, has commands; the lines after a `$ ` command are its output,
  in which `…` matches any omitted text. Only standard output is shown.
- A word after the block's language is a setting: `exit=1` (default 0), or `not-run=REASON`, one of `REASONS`.
"""

import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from markdown_it import MarkdownIt

from tools.running import Outcome, run_process
from tools.warm_commands import run_warm_command

ROOT = Path(__file__).parents[1]

REASONS = {
    "gpu": "needs a GPU; run by hand, see docs/measurements/",
    "toolchain": "needs another toolchain's environment, of some GB; tests/compile/test_other_toolchains.py has it",
    "large": "takes minutes and many GiB",
    "many": "compiles some fifty times; tests/bisect/test_flags.py runs the axis on fewer",
    "reports": "compiles every public report; tests/benchmark/test_public_reports.py does three",
    "all": "checks every case; tests/api/test_all_cases.py does",
    "workers": "starts workers of its own; tests/sweep/test_sweep.py does",
    "setup": "sets up an environment that the tests already have",
    "form": "names a file, case or program of the reader's",
    "server": "for somebody else's service",
    "tool": "needs a program that is not everywhere",
}
"""The allowed reasons for not running a block."""

_SHELLS = frozenset({"", "sh", "bash", "console"})
_FILE = re.compile(r"^# (?P<name>[\w./-]+\.(?:py|toml))$")
_SHELL_SIGNS = frozenset("|&;<>$`*?{}~!()\\")
"""Characters of commands that need a shell."""
_NOT_A_READERS = ("CI", "BUILD_NUMBER", "FORCE_COLOR", "NO_COLOR", "PY_COLORS")
"""Variables that change the output and that a reader does not have: in CI pytest writes whole messages into its
summary.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block of a page."""

    page: Path
    line: int
    """1-based; the first line inside."""
    language: str
    words: tuple[str, ...]
    """The words after the language."""
    text: str

    @property
    def place(self) -> str:
        """Returns `docs/page.md:12`."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    def find_word(self, name: str) -> str:
        """Returns the value of `name=value`, empty if there is none."""
        return next((word.partition("=")[2] for word in self.words if word.startswith(f"{name}=")), "")

    @property
    def is_shell(self) -> bool:
        """Returns whether it contains commands."""
        return self.language in _SHELLS or (self.language == "text" and self.text.startswith("$ "))

    @property
    def file_name(self) -> str:
        """Returns the name of the file that it defines, from its first line; empty if it defines none."""
        match = _FILE.match(self.text.partition("\n")[0]) if self.language in {"python", "toml"} else None
        return match["name"] if match else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command and what the page says it prints."""

    words: str
    expected: str | None
    """None if the page shows no output."""


def list_pages() -> tuple[Path, ...]:
    """Returns README.md and the pages of docs/ that people write, without generated pages and records."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    return tuple(page for page in pages if page.name != "cli.md")


def parse_blocks(page: Path) -> tuple[Block, ...]:
    """Returns the page's fenced blocks."""
    tokens = MarkdownIt().parse(page.read_text(encoding="utf-8"))
    found: list[Block] = []
    for token in tokens:
        if token.type == "fence" and token.map is not None:
            language, *words = token.info.split() or [""]
            line = token.map[0] + 2
            found.append(Block(page=page, line=line, language=language, words=tuple(words), text=token.content))
    return tuple(found)


def parse_commands(block: Block) -> tuple[Command, ...]:
    """Returns the commands of a shell block, in order; a comment after a command is not part of it."""
    commands: list[Command] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            commands.append(Command(words=line[2:], expected=""))
        elif commands and commands[-1].expected is not None:
            last = commands[-1]
            commands[-1] = replace(last, expected=f"{last.expected}{line}\n")
        elif line.strip() and not line.startswith("#"):
            commands.append(Command(words=line, expected=None))
    return tuple(commands)


def prepare_folder(folder: Path) -> None:
    """Puts into the folder everything that a page may rely on."""
    for name in ("cases", "kernels"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))


def run_command(words: str, folder: Path, cache: Path, python: Path = Path(sys.executable)) -> Outcome:
    """Runs the command in a shell with the ligerdiag of this interpreter, or of `python`."""
    own = {name: value for name, value in os.environ.items() if name not in _NOT_A_READERS}
    environment = own | {
        "LIGERDIAG_CACHE_DIR": str(cache),
        "PATH": os.pathsep.join(dict.fromkeys((str(python.parent), *os.environ["PATH"].split(os.pathsep)))),
        "PYTHONPATH": str(folder),
        "COLUMNS": "150",
        "PYTEST_ADDOPTS": "",
    }
    plain = re.sub(r"(^|&& )uv run ", r"\1", words)
    if python == Path(sys.executable) and plain.startswith("ligerdiag ") and not _SHELL_SIGNS.intersection(plain):
        return run_warm_command(shlex.split(plain, comments=True)[1:], cwd=folder, environment=environment)
    return run_process(["bash", "-c", plain], cwd=folder, environment=environment)


def iterate_runs(
    page: Path, folder: Path, cache: Path, *, python: Path = Path(sys.executable), of_its_files: bool = False
) -> Iterator[tuple[Block, Command, Outcome]]:
    """Runs the page's blocks in order, and writes its files as they come.

    python: the interpreter of the environment to use. of_its_files: only the commands that name one of these files.
    """
    names: list[str] = []
    for block in parse_blocks(page):
        if block.file_name:
            path = folder / block.file_name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
            names.append(block.file_name)
        elif block.is_shell and not block.find_word("not-run"):
            for command in parse_commands(block):
                if not of_its_files or any(name in command.words for name in names):
                    yield block, command, run_command(command.words, folder, cache, python)


def matches(expected: str, printed: str) -> bool:
    """Returns whether the page shows the printed text, blanks aside. `…` matches any text, or none. Two rounding errors
    match: processors of different kinds add in different orders.
    """
    parts = [re.escape(_squeeze(part)) for part in _squeeze(expected).split("…")]
    return re.fullmatch(".*".join(part.strip() for part in parts), _squeeze(printed), flags=re.DOTALL) is not None


_ROUNDING = re.compile(r"\b\d(?:\.\d+)?e-(?:0[6-9]|[1-9]\d)\b(?: \w+(?=  ))?")
"""A rounding error, and the output that has it if the same table cell names it: any output may have the largest one."""


def _squeeze(text: str) -> str:
    return re.sub(r"\s+", " ", _ROUNDING.sub("<below 1e-5>", text)).strip()
