"""Generated pages of the documentation: written, or compared with what is there."""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path


def run_page_command(arguments: Sequence[str], usage: str, render: Callable[[], Mapping[str, str]]) -> int:
    """`DIRECTORY [--check]`: writes the pages, or names the stale ones; returns 0, 1 when stale, 2 for wrong usage."""
    names = [argument for argument in arguments if not argument.startswith("-")]
    if len(names) != 1 or not {a for a in arguments if a.startswith("-")} <= {"--check"}:
        sys.stderr.write(f"usage: {usage}\n")
        return 2
    directory, pages = Path(names[0]), render()
    stale = find_stale_pages(directory, pages)
    if "--check" not in arguments:
        write_pages(directory, pages)
        return 0
    for name in stale:
        sys.stderr.write(f"{directory / name} is not what the source says: run `make docs`\n")
    return 1 if stale else 0


def find_stale_pages(directory: Path, pages: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the names of pages that are missing, differ, or are there without a source (only Markdown files
    count)."""
    there = {path.name: path.read_text(encoding="utf-8") for path in sorted(directory.glob("*.md"))}
    return tuple(sorted(name for name in {*there, *pages} if there.get(name) != pages.get(name)))


def write_pages(directory: Path, pages: Mapping[str, str]) -> None:
    """Makes the directory's Markdown files exactly these pages."""
    directory.mkdir(parents=True, exist_ok=True)
    for name in find_stale_pages(directory, pages):
        if name in pages:
            (directory / name).write_text(pages[name], encoding="utf-8")
        else:
            (directory / name).unlink()
