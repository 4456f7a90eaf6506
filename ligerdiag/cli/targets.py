"""`ligerdiag targets`: for which GPUs can be compiled here?"""

import sys
from typing import Annotated

import typer

from ligerdiag.errors import InputError

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
    from ligerdiag.report.columns import render_columns

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
