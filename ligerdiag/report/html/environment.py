"""The templates and what every page shares: signs, file names, texts that fit into an SVG, and the module's packed
text.

The templates: everything is escaped, a name that is not there is an error, and what is printed is one printable line.

A page may load nothing, run no script and use no style sheet but its own: the policy in its head names their digests.
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
from ligerdiag.model.report import CaseReport
from ligerdiag.model.schedule_view import AccessKind, BufferAccess, ReadKind
from ligerdiag.text import compute_printable


@dataclass(frozen=True, slots=True)
class Sign:
    """An entry of the legend."""

    name: str
    """Id of the symbol and name of the style."""
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
        Sign("fresh", "fresh read", "gets the new contents, as meant"),
        Sign("original", "early read", "gets the old contents, as meant"),
        Sign("reuse", "reused", "XLA puts another value there"),
    )
}
"""By name, in the order of the legend."""

WRONG_READS = (ReadKind.STALE, ReadKind.CLOBBERED, ReadKind.UNKNOWN, ReadKind.LATENT)
"""Reads that are the story, the worst first."""


def sign_of(access: BufferAccess) -> Sign:
    """Returns the sign of an access; a read of no kind is as doubtful as an unknown one."""
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
    """By `VERDICT_ORDER`; None without any."""
    return max(verdicts, key=VERDICT_ORDER.index, default=None)


_BREAKS = re.compile(r"(?<=[_.\-/\]\[,])")


def compute_lines(text: str, columns: int, lines: int) -> tuple[str, ...]:
    """`text` broken after `_`, `.` and the like into at most `lines` lines of at most `columns` characters.

    What does not fit is left out of the middle, for the end of a name tells `fusion.1` from `fusion.2`.
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
    """At most `columns` characters, with an ellipsis in the middle."""
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
"""Content of the meta element by which our pages are known."""
_PACKAGE = "ligerdiag.report.html"


def render(template: str, style: str, script: str, **names: Any) -> str:
    """Returns a page. style, script: names of files beside the templates."""
    css, js = _load(style), _load(script)
    policy = (
        f"default-src 'none'; style-src '{_compute_digest(css)}'; script-src '{_compute_digest(js)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    page = _environment().get_template(template)
    return page.render(generator=GENERATOR, policy=policy, css=Markup(css), js=Markup(js), signs=SIGNS, **names)


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
    """Escapes text, which may come from untrusted files; our own markup is marked as safe, and numbers stay numbers."""
    if isinstance(value, float):
        return f"{value:.6g}"
    return compute_printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@lru_cache(maxsize=8)
def _load(name: str) -> str:
    return resources.files(_PACKAGE).joinpath("templates", name).read_text(encoding="utf-8")


def _compute_digest(text: str) -> str:
    """Returns the digest as a content security policy names it; the text must be the element's whole content."""
    return f"sha256-{b64encode(sha256(text.encode('utf-8')).digest()).decode('ascii')}"


INDEX = "index.html"
MAX_READABLE = 80
"""Characters of a name that say which case it is; the digest behind them makes it unique."""

_UNSAFE = re.compile(r"[^A-Za-z0-9_]+")


def compute_file_names(cases: Sequence[CaseReport]) -> tuple[str, ...]:
    """Returns one name a case, such as `seed_flce-False-float32.h100.1b2c3d4e.html`.

    Two entries with the same id and target, from two files, are told apart by their order.
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
"""Of gzip: a module of 150,000 instructions takes a second, and a few megabytes."""


def compute_packed(lines: Sequence[str]) -> str:
    """UTF-8 as gzip as base64, the same for the same lines; a line holds no control character."""
    text = "\n".join(map(compute_printable_line, lines))
    return b64encode(gzip.compress(text.encode("utf-8", "replace"), LEVEL, mtime=0)).decode("ascii")


def compute_printable_line(line: str) -> str:
    """Returns the same on one line, with the blanks at its front."""
    bare = line.lstrip(" ")
    return " " * (len(line) - len(bare)) + compute_printable(bare)
