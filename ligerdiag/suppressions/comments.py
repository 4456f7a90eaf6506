"""Comments that allow findings: `# ligerdiag: allow LD003 because the reader only logs`.

1. A comment after code applies to its own line. Alone on its line it applies to the first line below it that is no
   comment: several can stand above each other, and a long reason can continue in the next comment line.
2. Rules are given by id or name, several with commas between them; the rest up to the next ` # ` is the reason.
3. Only a comment by Python's own tokenizer counts: a string that holds the words allows nothing.
4. The file's name may come from an untrusted artifact: `read_source` decides which files are read. Any other file, or
   one that is not Python, allows nothing.
"""

import io
import re
import tokenize
from collections.abc import Sequence
from dataclasses import dataclass

from ligerdiag.errors import InputError
from ligerdiag.hazards.registry import get_rule
from ligerdiag.report.source_text import read_source

_COMMENT = re.compile(r"#\s*ligerdiag:\s*allow\b(?P<rest>.*)")
_WORD = re.compile(r"\s*(?P<word>[A-Za-z][\w-]*)\s*(?P<comma>,?)")
_ID = re.compile(r"LD\d+", re.IGNORECASE)
_NO_CODE = frozenset(
    {
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.COMMENT,
        tokenize.ENCODING,
        tokenize.ENDMARKER,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowComment:
    """One comment."""

    line: int
    """Its line, 1-based."""
    allows: int
    """The line whose findings it allows, 1-based."""
    rules: tuple[str, ...]
    """Ids."""
    unknown: tuple[str, ...]
    """Words in the place of rules that name no rule."""
    reason: str
    """Empty where there is none: then nothing is allowed."""


def load_comments(file: str, roots: Sequence[str]) -> tuple[AllowComment, ...]:
    """Returns the comments of a file, from its top; none where it is not to be read. roots: real paths of the user's
    folders."""
    code = read_source(file, roots)
    return () if code is None else parse_comments(code)


def parse_comments(code: bytes) -> tuple[AllowComment, ...]:
    """Returns the comments of Python source, from its top; none where it is no Python."""
    if b"ligerdiag:" not in code:
        return ()
    try:
        tokens = list(tokenize.tokenize(io.BytesIO(code).readline))
    except (tokenize.TokenError, SyntaxError, ValueError, RecursionError):
        return ()
    busy = {line for t in tokens if t.type not in _NO_CODE for line in range(t.start[0], t.end[0] + 1)}
    alone = {t.start[0] for t in tokens if t.type == tokenize.COMMENT} - busy
    found: list[AllowComment] = []
    for token in tokens:
        match = _COMMENT.search(token.string) if token.type == tokenize.COMMENT else None
        if match is None:
            continue
        line = allows = token.start[0]
        while allows in alone:
            allows += 1
        rules, unknown, reason = _parse_rest(match["rest"])
        found.append(AllowComment(line=line, allows=allows, rules=rules, unknown=unknown, reason=reason))
    return tuple(found)


def _parse_rest(rest: str) -> tuple[tuple[str, ...], tuple[str, ...], str]:
    """Ids of rules, what is none, and the reason."""
    text = re.split(r"\s#\s", rest, maxsplit=1)[0]
    rules: list[str] = []
    unknown: list[str] = []
    more = True
    while more and (word := _WORD.match(text)) is not None:
        rule = _find_rule(word["word"])
        if rule:
            rules.append(rule)
        elif _ID.fullmatch(word["word"]) or not (rules or unknown):
            unknown.append(word["word"])
        else:
            break  # the reason, after a comma
        text, more = text[word.end() :], bool(word["comma"])
    reason = text.strip(" \t:;,.-–—()")
    return tuple(dict.fromkeys(rules)), tuple(unknown), reason if any(c.isalnum() for c in reason) else ""


def _find_rule(word: str) -> str:
    try:
        return get_rule(word).id
    except InputError:
        return ""
