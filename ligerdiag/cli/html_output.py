"""The directory for the pages: one of ours, an empty one, or one that does not exist yet."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from ligerdiag.cli.output import write_atomically
from ligerdiag.errors import InputError
from ligerdiag.report.model import CheckReport

Html = Annotated[
    Path | None,
    typer.Option("--html", metavar="DIR", help="Write pages for a browser, too: DIR/index.html and one a case."),
]
_HEAD = 4096
"""Bytes at the start of a page in which it names its generator."""


def require_html_directory(path: Path) -> None:
    """Raises InputError, before any work is done, when no report can be written to `path`.

    A directory that holds anything else than an earlier report of ours is refused: old pages are removed from it.
    """
    if path.exists() and not path.is_dir():
        raise InputError(f"expected a directory for --html but `{path}` is a file")
    if path.is_dir():
        _require_ours(path)
    existing = next(parent for parent in (path, *path.absolute().parents) if parent.exists())
    if not existing.is_dir():
        raise InputError(f"expected a directory for --html but `{existing}` is a file")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise InputError(f"expected to be allowed to write to `{existing}` for --html")


def write_html(report: CheckReport, directory: Path) -> None:
    """Writes a page for each case and then the index, removes pages of an earlier report, and says where they are.

    Each page is there as a whole or not at all. Raises InputError when the disk says no.
    """
    from ligerdiag.report.html import INDEX, compute_file_names, render_case_html, render_index_html

    require_html_directory(directory)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"expected to create `{directory}` but got: {error}") from error
    names = compute_file_names(report.cases)
    for name, case in zip(names, report.cases, strict=True):
        write_atomically(directory / name, render_case_html(case, report))
    write_atomically(directory / INDEX, render_index_html(report, files=names))
    for page in _list_pages(directory):
        if page.name not in {*names, INDEX}:
            page.unlink(missing_ok=True)
    sys.stderr.write(f"html: {directory / INDEX}\n")


def _require_ours(directory: Path) -> None:
    """Everything in it is a page of ours; a report whose index was never written is one, too."""
    try:
        entries = {entry for entry in directory.iterdir() if not entry.name.startswith(".")}
    except OSError as error:
        raise InputError(f"expected to read `{directory}` for --html but got: {error}") from error
    from ligerdiag.report.html import INDEX

    pages = set(_list_pages(directory))
    if entries and directory / INDEX not in pages and entries != pages:
        raise InputError(
            f"expected an empty directory or an earlier report for --html but `{directory}` holds something else"
        )


def _list_pages(directory: Path) -> list[Path]:
    """Files of the directory that say in their head that we wrote them; no links."""
    return [
        path for path in sorted(directory.glob("*.html")) if path.is_file() and not path.is_symlink() and _is_ours(path)
    ]


def _is_ours(path: Path) -> bool:
    from ligerdiag.report.html import GENERATOR

    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
    except OSError:
        return False
    return f'<meta name="generator" content="{GENERATOR} '.encode() in head
