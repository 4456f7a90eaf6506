"""Lists the texts of this repository that people read: pages, docstrings, comments and messages, each with its place.

Python files are parsed, never imported. Fenced blocks of pages and generated files are omitted.
"""

import ast
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]

_GENERATED = re.compile(r"_pb2\.pyi?$|^docs/(cli\.md|reach\.md|versions\.md|rules/)|^tests/newcomer/project/")
"""Files that are generated from other files, which are checked themselves."""
_ARCHIVE = "docs/measurements/"
_FENCE = re.compile(r"^(\s*)(```+|~~~+).*?^\1\2\s*$", re.DOTALL | re.MULTILINE)
_COMMENT = re.compile(r"^\s*#(?P<own>.*)$|^.*\S  # (?P<trailing>[^\"']*)$")
_DIRECTIVE = re.compile(r"^!|^ ?(noqa|type:|pyright:|ruff:|fmt:)|^ /// ")


class Kind(Enum):
    """The kind of a text."""

    PAGE = "page"
    DOCSTRING = "docstring"
    COMMENT = "comment"
    MESSAGE = "message"
    """Any other string of at least three words: an error, a help text, a finding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A text and where it begins."""

    path: str
    """Relative to the repository, with `/`."""
    line: int
    """1-based."""
    kind: Kind
    text: str


@cache
def list_files() -> tuple[str, ...]:
    """Returns the paths of all files that git tracks or would add, relative to the repository."""
    words = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    out = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return tuple(sorted(path for path in set(out.splitlines()) if (ROOT / path).is_file()))


def iterate_texts(*, archive: bool = False) -> Iterator[Text]:
    """Yields every text that people write; archive: also the dated records of docs/measurements."""
    for path in list_files():
        if _GENERATED.search(path) or (path.startswith(_ARCHIVE) and not archive):
            continue
        if path.endswith(".md"):
            yield Text(path=path, line=1, kind=Kind.PAGE, text=_blank_fences(_read(path)))
        elif path.endswith(".py"):
            yield from _read_python(path)


@cache
def _read_python(path: str) -> tuple[Text, ...]:
    return tuple(parse_python(path, _read(path)))


def parse_python(path: str, source: str) -> Iterator[Text]:
    """Yields docstrings (also those of attributes), comments and messages of a Python file."""
    tree = ast.parse(source)
    docstrings: set[int] = set()
    fragments: set[int] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text)) as constant):
                docstrings.add(id(constant))
                yield Text(path=path, line=constant.lineno, kind=Kind.DOCSTRING, text=text)
            case ast.JoinedStr(values=values):
                fragments.update(id(value) for value in values)
                text = "".join(str(one.value) if isinstance(one, ast.Constant) else "{}" for one in values)
                yield from _make_message(path, node.lineno, text)
            case ast.Constant(value=str(text)) if id(node) not in docstrings | fragments:
                yield from _make_message(path, node.lineno, text)
            case _:
                pass
    yield from _parse_comments(path, source)


def _make_message(path: str, line: int, text: str) -> Iterator[Text]:
    if len(text.split()) >= 3:
        yield Text(path=path, line=line, kind=Kind.MESSAGE, text=text)


def _parse_comments(path: str, source: str) -> Iterator[Text]:
    """Yields consecutive lines of comment as one text, because sentences wrap."""
    lines: list[str] = []
    for number, line in enumerate([*source.splitlines(), ""], start=1):
        match = _COMMENT.match(line)
        words = (match["own"] or match["trailing"] or "") if match else ""
        if match and not _DIRECTIVE.match(words):
            lines.append(words)
        if lines and (not match or match["own"] is None):
            yield Text(path=path, line=number - len(lines) + bool(match), kind=Kind.COMMENT, text="\n".join(lines))
            lines = []


def _read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def _blank_fences(text: str) -> str:
    """Replaces fenced blocks by empty lines, so that line numbers stay the same."""
    return _FENCE.sub(lambda match: "\n" * match[0].count("\n"), text)
