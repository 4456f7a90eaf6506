"""Writes the pages of docs/reports/ that commands can write: `python -m tools.written_reports [PAGE...]`, or `make reports`.

`written_reports.toml` has the command of each page, and the paragraphs that people wrote. The rest of a page is what
`ligerdiag` prints with `--format issue`.
"""

import re
import shlex
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
REPORTS = ROOT / "docs" / "reports"
TABLE = Path(__file__).with_suffix(".toml")
_FOUND = re.compile(r"\[(LD\d+ [\w-]+)\]\(\S+/rules/([\w-]+)/\)")
_VERSION = re.compile(r"Found by ligerdiag \S+?(?=[:.]$|: )", re.MULTILINE)


def load_table() -> Mapping[str, Mapping[str, str]]:
    """Returns the entries of the table by the name of their page."""
    return tomllib.loads(TABLE.read_text(encoding="utf-8"))["page"]


def render_page(entry: Mapping[str, str], body: str) -> str:
    """Returns the page: the body of the report, after a note on its origin and before the paragraphs of the table. Links
    to rules become links to this repository's pages, and the version of ligerdiag is left out.
    """
    title, rest = body.split("\n\n", 1)
    rest = _VERSION.sub("Found by ligerdiag", _FOUND.sub(r"[\1](../rules/\2.md)", rest))
    origin = (
        f"*For the maintainers of {entry['to']}. `make reports` writes this page with the command below, without a GPU;"
        " only the last section is written by hand.*"
    )
    command = f"```sh not-run=form\n{entry['command']}\n```"
    rest = rest.replace("\n```sh\n", "\n```sh not-run=form\n")
    return (
        f"{title}\n\n{origin}\n\n{command}\n\n{rest}\n## Where it is, and how to mend it\n\n{entry['about'].strip()}\n"
    )


def run_command(command: str) -> str:
    """Returns what the command prints. Raises RuntimeError if it prints no report."""
    words = [str(ROOT / word) if word.startswith("docs/") else word for word in shlex.split(command)]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-m", *words], cwd=folder, stdout=subprocess.PIPE, text=True, check=False
        )
    if not done.stdout.startswith("# "):
        raise RuntimeError(f"`{command}` ended with {done.returncode} and printed no report")
    return done.stdout


def main(names: Sequence[str]) -> int:
    """Writes the named pages, or all of them; returns the exit code: 0, or 2 for an unknown page."""
    table = load_table()
    unknown = [name for name in names if name not in table]
    if unknown:
        sys.stderr.write(f"expected pages of {', '.join(table)} but got {', '.join(unknown)}\n")
        return 2
    for name in names or table:
        body = run_command(table[name]["command"])
        (REPORTS / f"{name}.md").write_text(render_page(table[name], body), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
