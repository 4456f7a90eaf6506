"""`ligerdiag explain`: what is this rule, why does it matter, what is to be done?"""

import sys
from typing import Annotated

import typer

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
    from ligerdiag.report.columns import render_columns
    from ligerdiag.report.rule_page import render_rule_text
    from ligerdiag.report.terminal import compute_stream_width

    if rule is not None:
        width = min(compute_stream_width(sys.stdout) or MAX_WIDTH, MAX_WIDTH)
        sys.stdout.write(render_rule_text(api.get_rule(rule), width))
        return
    rows = [(r.id, r.name, r.severity.value, r.summary) for r in api.list_rules()]
    sys.stdout.write(render_columns(("rule", "name", "severity", "what"), rows))
