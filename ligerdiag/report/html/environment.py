"""The templates: everything is escaped, a name that is not there is an error, and what is printed is one printable line.

A page may load nothing, run no script and use no style sheet but its own: the policy in its head names their digests.
"""

from base64 import b64encode
from functools import lru_cache
from hashlib import sha256
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ligerdiag.report.html.marks import SIGNS
from ligerdiag.report.printable import compute_printable

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
