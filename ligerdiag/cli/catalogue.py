"""`ligerdiag explain`, `list`, `targets`: which rules, cases and GPUs are there?"""

import sys
from collections.abc import Mapping
from typing import Annotated

import typer

from ligerdiag.errors import InputError

EXPLAIN_HELP = """What is this rule, why is it a hazard and what is to be done? With an example that is
flagged and one that is not. Without RULE: all rules, one a line.
"""

EXPLAIN_EPILOG = """\b
Examples:
  ligerdiag explain
  ligerdiag explain LD002
  ligerdiag explain stale-copy
"""


MAX_WIDTH = 100


def explain(
    rule: Annotated[str | None, typer.Argument(help="Id or name of a rule.", show_default=False)] = None,
) -> None:
    """Prints the page of a rule, or the list of all."""
    from ligerdiag import api
    from ligerdiag.render.rule_page import render_rule_text
    from ligerdiag.render.terminal.spans import render_columns
    from ligerdiag.render.terminal.terminal import compute_stream_width

    if rule is not None:
        width = min(compute_stream_width(sys.stdout) or MAX_WIDTH, MAX_WIDTH)
        sys.stdout.write(render_rule_text(api.get_rule(rule), width))
        return
    rows = [(r.id, r.name, r.severity.value, r.summary) for r in api.list_rules()]
    sys.stdout.write(render_columns(("rule", "name", "severity", "what"), rows))


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
    from ligerdiag.render.terminal.spans import render_columns
    from ligerdiag.text import compute_printable

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


TARGETS_HELP = """For which GPUs can be compiled, without having one? With NAME: the description that XLA
is given, with the sources of its figures.
"""

TARGETS_EPILOG = """\b
Examples:
  ligerdiag targets
  ligerdiag targets h200
  ligerdiag check --target a100,h200
"""


def targets(
    name: Annotated[str | None, typer.Argument(help="A target.", show_default=False)] = None,
) -> None:
    """Prints the targets, or the description of one."""
    from ligerdiag import api
    from ligerdiag.render.terminal.spans import render_columns

    known = api.list_targets()
    if name is None:
        rows = [(target.name, render_capability(target.compute_capability), str(target.path)) for target in known]
        sys.stdout.write(render_columns(("target", "compute capability", "description"), rows))
        return
    for target in known:
        if target.name == name:
            sys.stdout.write(target.description.rstrip("\n") + "\n")
            return
    raise InputError(f"expected a target of {', '.join(target.name for target in known)} but got `{name}`")


def render_capability(capability: int) -> str:
    """`9.0` for 90."""
    return f"{capability // 10}.{capability % 10}"
