"""Finds wording that readers stumble over: `python -m tools.english [FOLDER...]`.

Prints the number of hits in each folder, and for FOLDER each place with the remedy. tests/docs/test_english.py uses it.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tools.texts import Kind, Text, iterate_texts

NUMBERED_DEFINITIONS = "ligerdiag/analysis/verdict/comparison.py"
"""The only file whose docstring is a numbered list: it defines the verdict."""

_SELF = frozenset({"tools/english.py", "tests/docs/test_english.py", "CONTRIBUTING.md"})
"""Files that have to quote the patterns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """A wording to avoid."""

    name: str
    regex: re.Pattern[str]
    """Searched in the text with each run of blanks as one space, and without the code in backticks."""
    remedy: str
    kinds: frozenset[Kind] = frozenset(Kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A wording to avoid, and its place."""

    path: str
    line: int
    """1-based."""
    pattern: Pattern
    quote: str

    @property
    def folder(self) -> str:
        """Returns `ligerdiag/hlo`, `tests/cli` or `docs`: the unit in which wording is mended."""
        parts = self.path.split("/")
        depth = 2 if parts[0] in {"ligerdiag", "tests"} and len(parts) > 2 else 1
        return "/".join(parts[:depth]) if len(parts) > 1 else self.path

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: `{self.quote}`: {self.pattern.remedy}"


def _make(name: str, regex: str, remedy: str, *kinds: Kind) -> Pattern:
    return Pattern(name=name, regex=re.compile(regex), remedy=remedy, kinds=frozenset(kinds or Kind))


PATTERNS = (
    _make(
        "headless what",
        r"^\s*What\b(?![^.?]*\?)",
        "a summary begins with its subject or a verb: `The outputs that ...`, `Returns ...`",
        Kind.DOCSTRING,
    ),
    _make(
        "what as a noun",
        r"\b[Ww]hat (is|was|are) meant\b|\b[Ww]hat (stands|stood) (there|here|in|at|behind)\b(?! for\b)",
        "name the thing: the intended value, the old contents",
    ),
    _make("hangs on", r"\b[Hh](ang|angs|anging|ung) (on|together)\b", "say `depends on`, `is consistent`"),
    _make(
        "held against",
        r"\b[Hh](eld|old|olds|olding)( \S+){0,4} against\b",
        "say `compared with`, `checked against`",
    ),
    _make(
        "is told",
        r"\b(is|are|was|were|be|been|not|as|than) told\b(?! (to|that|apart|about|how|which|whether)\b)",
        "say who reports it: `LD010 reports`, `cannot be distinguished from`",
    ),
    _make(
        "told from",
        r"\b(told|tell|tells|telling) [^.;:,]{0,40}?\bfrom (another|the original|the other|one of an)",
        "say `distinguish`",
    ),
    _make(
        "counter for service",
        r"\b([Cc]ompilers?|[Dd]evices?|[Rr]eplay|[Ww]orkers?|[Ss]andbox)(['’]s|s['’]) counters?\b",
        "say `service` or `client`: a counter counts",
    ),
    _make("stands for", r"\b(stand|stands|stood|standing) (for|where)\b", "say `represents`, `is`, `replaces`"),
    _make("where it is not known", r"\bwhere (it|that|this) is not known\b", "say `if it is unknown`"),
    _make("left alone", r"\b(is|are) left alone\b", "say `is not written`, `stays unchanged`"),
    _make("has to do with", r"\b(has|have|had) to do with\b", "say `concerns`, `depends on`"),
    _make("in the place of", r"\bin (the|its|their) place of\b", "say `instead of`, `for`"),
    _make("is none of", r"\b(is|are) none of\b", "say `is not a`"),
    _make("of one's own", r"\bof one['’]s own\b", "say `your own`, `its own`"),
    _make("as it is", r"\bas it is(?=[.,;:)]|$)", "say `unchanged`"),
    _make(
        "behind for after",
        r"\bbehind (the|an?|its|each|every|this|that) ((la|fir)st |second |other )?(call|kernel|write|loop|launch|pass)s?\b",
        "time has an after: `after the call`",
    ),
    _make("goes on", r"\b(goes|go|went) on\b(?! to\b)", "say `continues`"),
    _make("makes it that", r"\bmakes? it that\b", "say `makes`, `causes`"),
    _make(
        "rooms",
        r"\b[Rr]ooms?\b(?! (for|left|to)\b)|\bsub-rooms?\b",
        "say `package`, `folder`",
        Kind.PAGE,
        Kind.DOCSTRING,
        Kind.COMMENT,
    ),
    _make(
        "cited rule number",
        r"\b(by|see|rules?|points?|number) \(\d\)|\(\d\)(,| and| or) \(\d\)|\brules? \d+ (of|in) `",
        "repeat the fact, or name the file: numbers move",
        Kind.DOCSTRING,
        Kind.COMMENT,
    ),
    _make(
        "glued docstrings",
        r"\b(?P<side>[A-Z]\w+ side: ).*\b(?P=side)",
        "one docstring, one summary",
        Kind.DOCSTRING,
    ),
)

NUMBERED = _make(
    "numbered rules",
    r"(?ms)^\s*\(?1[.)] .*^\s*\(?2[.)] ",
    "write the invariants as sentences",
    Kind.DOCSTRING,
)
"""Searched in the text with its line breaks."""

_ANY = re.compile("|".join(f"(?:{pattern.regex.pattern})" for pattern in PATTERNS))
_BLANKS = re.compile(r"\s+")
_CODE = re.compile(r"`[^`\n]*`")


def find_hits(texts: Iterable[Text] | None = None) -> Iterator[Hit]:
    """Yields each wording to avoid in these texts, or in the whole repository."""
    for text in iterate_texts() if texts is None else texts:
        if text.path in _SELF:
            continue
        squeezed = _BLANKS.sub(" ", _hide_code(text.text)).lstrip()
        if _ANY.search(squeezed):
            lines = _list_lines(text.text)
            for pattern in PATTERNS:
                if text.kind in pattern.kinds:
                    for match in pattern.regex.finditer(squeezed):
                        yield _make_hit(text, lines[match.start()], pattern, match[0])
        if text.kind in NUMBERED.kinds and text.path != NUMBERED_DEFINITIONS and NUMBERED.regex.search(text.text):
            yield _make_hit(text, 0, NUMBERED, "1. ... 2. ...")


def _make_hit(text: Text, line: int, pattern: Pattern, quote: str) -> Hit:
    return Hit(path=text.path, line=text.line + line, pattern=pattern, quote=quote.strip()[:60])


def _hide_code(text: str) -> str:
    """Blanks out code in backticks, so that all positions stay the same."""
    return _CODE.sub(lambda match: "`" + "_" * (len(match[0]) - 2) + "`", text)


def _list_lines(text: str) -> list[int]:
    """Returns the 0-based line of each character of the text with single spaces for runs of blanks."""
    lines: list[int] = []
    line, is_blank = 0, True
    for character in text:
        if not character.isspace() or not is_blank:
            lines.append(line)
        is_blank = character.isspace()
        line += character == "\n"
    return [*lines, line]


def main(folders: list[str]) -> int:
    """Returns the exit code."""
    hits = list(find_hits())
    for hit in hits:
        if any(hit.path == one or hit.path.startswith(f"{one.rstrip('/')}/") for one in folders):
            sys.stdout.write(f"{hit}\n")
    if not folders:
        for folder, count in sorted(Counter(hit.folder for hit in hits).items()):
            patterns = Counter(hit.pattern.name for hit in hits if hit.folder == folder)
            names = ", ".join(f"{name} {number}" for name, number in patterns.most_common())
            sys.stdout.write(f"{count:5d}  {folder:28s} {names}\n")
        sys.stdout.write(f"{len(hits):5d}  in all\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
