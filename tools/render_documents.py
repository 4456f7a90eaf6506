"""Writes the output of the commands of README.md and docs/ into these pages: `python -m tools.render_documents
[PAGE…]`.

A page's text stays if it still matches the output, with any text that `…` omits; otherwise the whole output replaces
it, without its durations, to be shortened again by hand. An unexpected exit code is reported and changes nothing.
"""

import re
import sys
import tempfile
from pathlib import Path

from tools.documents import ROOT, iterate_runs, list_pages, matches, prepare_folder


def render_page(page: Path, cache: Path) -> int:
    """Runs the page and rewrites it; returns the number of unexpected exit codes."""
    wrong = 0
    text = page.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        prepare_folder(Path(folder))
        for block, command, outcome in iterate_runs(page, Path(folder), cache):
            if outcome.code != int(block.find_word("exit") or 0):
                wrong += 1
                sys.stderr.write(f"{block.place}: {command.words}: exit code {outcome.code}\n{outcome.err}\n")
            if command.expected is not None and not matches(command.expected, outcome.out):
                sys.stderr.write(f"{block.place}: {command.words}: written anew\n")
                old, new = f"$ {command.words}\n{command.expected}", f"$ {command.words}\n{_strip_lines(outcome.out)}"
                text = text.replace(old, new, 1)
    page.write_text(text, encoding="utf-8")
    return wrong


def _strip_lines(text: str) -> str:
    text = re.sub(r"\bin \d+(\.\d+)? s\b", "in … s", text)
    text = re.sub(r"\b\d+ of them not in the cache", "… of them not in the cache", text)
    return "".join(f"{line.rstrip()}\n" for line in text.rstrip().splitlines())


def main(names: list[str]) -> int:
    """Returns the exit code."""
    pages = [Path(name).resolve() for name in names] or list_pages()
    cache = Path(tempfile.gettempdir()) / "ligerdiag-documents"
    return 1 if sum([render_page(page, cache) for page in pages if page.is_relative_to(ROOT)]) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
