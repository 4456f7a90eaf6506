"""Lets a record show itself to `print` and to a notebook, with the text and the HTML that the renderers of reports make.

A record is plain data and knows no renderer: it looks for them by name, at the moment when somebody shows it.
"""

from importlib import import_module
from typing import Any

_RENDERERS = "ligerdiag.report.display"


class Shown:
    """A record whose `str` is the text that the terminal shows of it, without colours."""

    __slots__ = ()

    def __str__(self) -> str:
        return _load_renderers().render_text(self)

    def _repr_html_(self) -> str:
        """Returns what a notebook shows of the record: a piece of HTML without scripts, which loads nothing."""
        return _load_renderers().render_html(self)


def _load_renderers() -> Any:
    return import_module(_RENDERERS)
