"""Loads the templates of the pages, and defines the parts that all pages share: signs, file names, line breaking, and the
packed text of the module.

The templates escape everything, raise an error for an unknown name, and print each text as one printable line. A page loads
nothing from elsewhere and has one script and one style sheet of its own. The content security policy in its head allows
these two, by their digests, and nothing else.
"""

import gzip
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from importlib import resources
from typing import Any, assert_never

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ligerdiag.model.findings import VERDICT_ORDER, Verdict
from ligerdiag.model.report import CaseReport, Status
from ligerdiag.model.schedule_view import AccessKind, BufferAccess, ReadKind
from ligerdiag.report.terminal.case_table import STATUS_TEXTS
from ligerdiag.text import compute_printable


@dataclass(frozen=True, slots=True)
class Sign:
    """A symbol for one kind of access to a buffer, such as a read of the old value, with its entry in the legend."""

    name: str
    """Id of the SVG symbol, which is also the name of its style."""
    word: str
    meaning: str


SIGNS: dict[str, Sign] = {
    sign.name: sign
    for sign in (
        Sign("define", "computed", ""),
        Sign("write", "overwritten", "by the kernel, behind XLA's back"),
        Sign("stale", "stale read", "gets the old contents, needs the new"),
        Sign("clobbered", "clobbered read", "gets the new contents, needs the old"),
        Sign("unknown", "unknown read", "could not be decided"),
        Sign("latent", "latent read", "right by luck, nothing forces the order"),
        Sign("fresh", "fresh read", "gets the new contents, as intended"),
        Sign("original", "early read", "gets the old contents, as intended"),
        Sign("reuse", "reused", "XLA puts another value there"),
    )
}
"""Maps the name of each sign to the sign, in the order of the legend."""

WRONG_READS = (ReadKind.STALE, ReadKind.CLOBBERED, ReadKind.UNKNOWN, ReadKind.LATENT)
"""Kinds of reads that need attention, the worst first."""


def sign_of(access: BufferAccess) -> Sign:
    """Returns the sign for an access, or the sign `unknown` for a read of unknown kind."""
    match access.kind:
        case AccessKind.DEFINE:
            return SIGNS["define"]
        case AccessKind.HIDDEN_WRITE:
            return SIGNS["write"]
        case AccessKind.REUSE:
            return SIGNS["reuse"]
        case AccessKind.READ:
            return SIGNS["unknown" if access.read is ReadKind.NONE else access.read.value]
        case _:
            assert_never(access.kind)


def compute_worst_verdict(verdicts: Iterable[Verdict]) -> Verdict | None:
    """Returns the worst of the verdicts by `VERDICT_ORDER`; None if there are none."""
    return max(verdicts, key=VERDICT_ORDER.index, default=None)


_BREAKS = re.compile(r"(?<=[_.\-/\]\[,])")


def compute_lines(text: str, columns: int, lines: int) -> tuple[str, ...]:
    """Breaks a name into at most `lines` lines of at most `columns` characters, after characters such as `_` and `.`.

    A name that does not fit loses its middle, because names such as `fusion.1` and `fusion.2` differ at their end.
    """
    whole = _break(text, columns)
    if len(whole) <= lines:
        return whole
    room = columns * lines
    while room > columns:
        shortened = _break(compute_shortened(text, room), columns)
        if len(shortened) <= lines:
            return shortened
        room -= 1
    return (compute_shortened(text, columns),)


def compute_shortened(text: str, columns: int) -> str:
    """Returns the text with an ellipsis in place of its middle if it has more than `columns` characters."""
    if len(text) <= columns:
        return text
    end = max(1, (columns - 1) // 2)
    return f"{text[: columns - 1 - end]}…{text[-end:]}"


def _break(text: str, columns: int) -> tuple[str, ...]:
    lines = [""]
    for piece in (word[at : at + columns] for word in _BREAKS.split(text) for at in range(0, len(word), columns)):
        if len(lines[-1]) + len(piece) <= columns:
            lines[-1] += piece
        else:
            lines.append(piece)
    return tuple(lines)


GENERATOR = "ligerdiag"
"""Content of the meta element by which a page is recognised as one of ours."""
_PACKAGE = "ligerdiag.report.html"


def render(template: str, style: str, script: str, **names: Any) -> str:
    """Returns a whole page as HTML.

    template, style, script: names of files in the folder of the templates. names: the values that the template uses.
    """
    css, js = _load(style), _load(script)
    policy = (
        f"default-src 'none'; style-src '{_compute_digest(css)}'; script-src '{_compute_digest(js)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    page = _environment().get_template(template)
    return page.render(generator=GENERATOR, policy=policy, css=Markup(css), js=Markup(js), signs=SIGNS, **names)


def render_part(template: str, **names: Any) -> str:
    """Returns HTML for a part of a page, without scripts and style sheets. Parameters are as in `render`."""
    return _environment().get_template(template).render(**names)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader(_PACKAGE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )


def _finalize(value: object) -> object:
    """Prepares a value for the page: a text becomes one printable line, because it may come from an untrusted file; a
    float is rounded to six digits; the status of a case that was not run becomes its text in `STATUS_TEXTS`, as in the
    other report formats; our own markup is unchanged.
    """
    if value is Status.NOT_CHECKED:
        return STATUS_TEXTS[Status.NOT_CHECKED]
    if isinstance(value, float):
        return f"{value:.6g}"
    return compute_printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@lru_cache(maxsize=8)
def _load(name: str) -> str:
    return resources.files(_PACKAGE).joinpath("templates", name).read_text(encoding="utf-8")


def _compute_digest(text: str) -> str:
    """Returns the digest of an element in the form that a content security policy needs. text: the whole content of the
    element.
    """
    return f"sha256-{b64encode(sha256(text.encode('utf-8')).digest()).decode('ascii')}"


INDEX = "index.html"
MAX_READABLE = 80
"""Greatest length, in characters, of a file name before its digest."""

_UNSAFE = re.compile(r"[^A-Za-z0-9_]+")


def compute_file_names(cases: Sequence[CaseReport]) -> tuple[str, ...]:
    """Returns the name of the page of each case, such as `seed_flce-False-float32.h100.1b2c3d4e.html`.

    The digest in a name covers the position among cases with equal id and target, so that no two names are equal.
    """
    met = Counter[tuple[str, str, str]]()
    names: list[str] = []
    for case in cases:
        key = (case.id, case.target, case.toolchain)
        names.append(_compute_name(case, (*key, str(met[key]))))
        met[key] += 1
    return tuple(names)


def _compute_name(case: CaseReport, identity: tuple[str, ...]) -> str:
    digest = sha256("\0".join(identity).encode("utf-8", "backslashreplace")).hexdigest()[:8]
    readable = _UNSAFE.sub("-", case.id).strip("-")[:MAX_READABLE] or "case"
    target = _UNSAFE.sub("-", case.target).strip("-")[:20] or "target"
    return f"{readable}.{target}.{digest}.html"


LEVEL = 6
"""Level of gzip. A module of 150,000 instructions then takes a second to pack, and a few megabytes."""


def compute_packed(lines: Sequence[str]) -> str:
    """Returns the lines as one text: compressed by gzip, in base64, without control characters.

    Equal lines give equal texts.
    """
    text = "\n".join(map(compute_printable_line, lines))
    return b64encode(gzip.compress(text.encode("utf-8", "replace"), LEVEL, mtime=0)).decode("ascii")


def compute_printable_line(line: str) -> str:
    """Returns the line without characters that are not printable. Blanks at its start stay."""
    bare = line.lstrip(" ")
    return " " * (len(line) - len(bare)) + compute_printable(bare)
