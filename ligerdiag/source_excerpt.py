"""Cuts an excerpt out of the user's source: some lines around a place, with a mark under the expression at the place.

The expression comes from the columns of the place if it has them, and else from the syntax tree: the largest expression
that starts on the line. If the columns fit no expression of the file, the file has changed since the compile, and there
is no excerpt. A line without columns on which no expression starts has no mark. The bounds of `source_text` hold: only
Python files below the user's folders are read.
"""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ligerdiag.model.findings import SourceLine, SourceSpan
from ligerdiag.source_text import (
    MAX_LINE_CHARACTERS,
    count_characters,
    load_source_lines,
    load_source_text,
    parse_source,
)
from ligerdiag.text import compute_printable

_TAB = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    """Lines around a place in the user's source. The indentation that all of them share is removed."""

    first: int
    """1-based number of the first line."""
    lines: tuple[str, ...]
    """The lines as printable text, each of at most `MAX_LINE_CHARACTERS`."""
    marked: int
    """Index in `lines` of the line that the place is about."""
    start: int
    """Index of the first character of the expression in that line."""
    end: int
    """Index after the last character of the expression in that line; equal to `start` if there is no mark."""

    @property
    def line(self) -> str:
        """Returns the line at the place. It is one of the excerpt's lines."""
        return self.lines[self.marked]


def load_unchanged_text(source: SourceLine, roots: Sequence[str]) -> str:
    """Returns the source line without its indentation, or "" if it cannot be read.

    Returns "" as well if the columns of the place show that the file has changed since it was compiled.
    """
    if source.span is not None and load_excerpt(source, roots) is None:
        return ""
    return load_source_text(source, roots)


def load_excerpt(source: SourceLine, roots: Sequence[str], *, around: int = 1) -> Excerpt | None:
    """Returns the line at a place of the user's source, with `around` lines before and after it.

    None if the file may not be read, no longer exists or has changed, or if the line is blank. roots: real paths of
    folders.
    """
    lines = load_source_lines(source.file, roots)
    text = lines[source.line - 1] if 1 <= source.line <= len(lines) else ""
    if not text.strip():
        return None
    tree = parse_source(source.file, roots)
    span = None if tree is None else _find_span(tree, source)
    if span is None and source.span is not None:
        return None
    start = end = len(text) - len(text.lstrip())
    if span is not None:
        start = count_characters(text, span.column)
        end = count_characters(text, span.end_column) if span.end_line == source.line else len(text.rstrip())
    first = max(0, source.line - 1 - around)
    shown = [line.rstrip() for line in lines[first : source.line + around]]
    marked = source.line - 1 - first
    while not shown[0] and marked > 0:
        shown, first, marked = shown[1:], first + 1, marked - 1
    while not shown[-1] and len(shown) > marked + 1:
        shown = shown[:-1]
    pieces = [_expand(text[:start]), _expand(text[:end]), _expand(text.rstrip())]
    begin, stop = (len(compute_printable(piece)) for piece in pieces[:2])
    clean = [compute_printable(_expand(line)) for line in shown]
    clean[marked] = compute_printable(pieces[2])
    indent = min(len(line) - len(line.lstrip()) for line in clean if line)
    return _cut(first + 1, [line[indent:] for line in clean], marked, begin - indent, stop - indent)


def _cut(first: int, lines: Sequence[str], marked: int, start: int, end: int) -> Excerpt | None:
    """Returns the excerpt with lines of at most `MAX_LINE_CHARACTERS`; None if the expression begins beyond that. The
    parameters are the fields of Excerpt.
    """
    most = MAX_LINE_CHARACTERS - 1 if len(lines[marked]) > MAX_LINE_CHARACTERS else len(lines[marked])
    if start >= most:
        return None
    end = min(end, most)
    cut = [line if len(line) <= MAX_LINE_CHARACTERS else line[: MAX_LINE_CHARACTERS - 1] + "…" for line in lines]
    return Excerpt(first=first, lines=tuple(cut), marked=marked, start=start, end=end)


def _find_span(tree: ast.Module, source: SourceLine) -> SourceSpan | None:
    nodes = [node for node in _iterate_nodes(tree, source.line) if _contains(node, source.line)]
    if source.span is not None:
        wanted = (source.line, source.span.column, source.span.end_line, source.span.end_column)
        # Python moves the start of a call of a method to the line that names the method.
        ends = [one for one in map(_place, nodes) if one[2:] == wanted[2:] and one[:2] <= wanted[:2]]
        is_there = wanted in ends or any(one[0] < source.line for one in ends)
        return source.span if is_there else None
    starts = [node for node in nodes if node.lineno == source.line and not _is_target(node)]
    places = [_place(node) for node in starts if isinstance(node, (ast.expr, ast.AugAssign))]
    largest = max(places, key=lambda one: (one[2], one[3] - one[1] if one[0] == one[2] else one[3]), default=None)
    return None if largest is None else SourceSpan(column=largest[1], end_line=largest[2], end_column=largest[3])


type _Node = ast.expr | ast.stmt


def _iterate_nodes(tree: ast.Module, line: int) -> Iterator[_Node]:
    """Yields the statements and expressions around or on the line; only nodes that can contain it are entered."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, (ast.expr, ast.stmt)):
            if not (_contains(node, line) or _has_decorator(node, line)):
                continue
            yield node
        pending += ast.iter_child_nodes(node)


def _contains(node: _Node, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _has_decorator(node: _Node, line: int) -> bool:
    """Returns whether the line is one of a decorator, which Python's positions of a function leave out."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return any(_contains(one, line) for one in node.decorator_list)
        case _:
            return False


def _is_target(node: _Node) -> bool:
    return isinstance(getattr(node, "ctx", None), (ast.Store, ast.Del))


def _place(node: _Node) -> tuple[int, int, int, int]:
    return node.lineno, node.col_offset, node.end_lineno or node.lineno, node.end_col_offset or node.col_offset


def _expand(text: str) -> str:
    return text.expandtabs(_TAB)
