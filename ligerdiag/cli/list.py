"""`ligerdiag list`: which cases are there?"""

import sys
from collections.abc import Mapping
from typing import Annotated

import typer

LIST_HELP = """Which cases are there? Prints the id, what is expected, the mesh, and what the case
stands for. Nothing is compiled.
"""

LIST_EPILOG = """\b
Examples:
  ligerdiag list
  ligerdiag list 'seed_*' --ids
  ligerdiag list mine.py
"""


def list_cases(
    selectors: Annotated[
        list[str] | None, typer.Argument(help="Ids, globs, files, module:name.", show_default=False)
    ] = None,
    ids: Annotated[bool, typer.Option("--ids", help="Ids only, one a line.")] = False,
) -> None:
    """Prints the cases that the selectors choose."""
    from ligerdiag import api
    from ligerdiag.report.columns import render_columns
    from ligerdiag.report.printable import compute_printable

    cases = api.list_cases(tuple(selectors or ()))
    if ids:
        sys.stdout.write("".join(f"{compute_printable(case.id)}\n" for case in cases))
        return
    rows = [(case.id, render_expected(case.expected), render_mesh(case.mesh), case.about) for case in cases]
    sys.stdout.write(render_columns(("case", "expected", "mesh", "about"), rows))


def render_expected(expected: str | Mapping[str, str] | None) -> str:
    """`fresh`, `hazard`, `weight stale|latent, * fresh`, or `-` for no expectation."""
    match expected:
        case None:
            return "-"
        case str():
            return expected
        case _:
            return ", ".join(f"{name} {verdicts}" for name, verdicts in expected.items())


def render_mesh(mesh: Mapping[str, int]) -> str:
    """`data=4 model=2`, or `-` for one device."""
    return " ".join(f"{axis}={size}" for axis, size in mesh.items()) or "-"
