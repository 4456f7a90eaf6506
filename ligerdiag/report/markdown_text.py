"""Text of others in Markdown: as code, where nothing is markup, link, mention or HTML."""

import re

from ligerdiag.report.printable import compute_printable


def render_code(text: str, *, in_table: bool = False) -> str:
    """`text` as a code span on one line; empty where there is none. in_table: a pipe in it does not end the cell."""
    bare = compute_printable(text)
    if not bare.strip():
        return ""
    if in_table and "|" in bare:
        return f"<code>{''.join(c if c.isalnum() or c == ' ' else f'&#{ord(c)};' for c in bare)}</code>"
    fence = "`" * (_longest_run(bare) + 1)
    blank = " " if bare[0] in "` " or bare[-1] in "` " else ""
    return f"{fence}{blank}{bare}{blank}{fence}"


def render_block(lines: list[str]) -> str:
    """Returns the lines as a fenced block, even if they hold fences themselves."""
    bare = [compute_printable(line) for line in lines]
    fence = "`" * max(3, max((_longest_run(line) for line in bare), default=0) + 1)
    return "\n".join((f"{fence}text", *bare, fence))


def render_table(heading: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Returns a table of cells that are Markdown already."""
    lines = [heading, ("---",) * len(heading), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)
