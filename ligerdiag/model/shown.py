"""Lets a record show itself to `print` and to a notebook.

The renderers of reports make the text and the HTML. A record is plain data and does not import them: `ligerdiag.api`
gives it those of `report.display`. In a process that has not imported the api, a record shows its `repr`.
"""

from collections.abc import Callable
from html import escape
from typing import Any

type Renderer = Callable[[Any], str]


class Shown:
    """A record whose `str` is the text that the terminal shows for it, without colours."""

    __slots__ = ()

    def __str__(self) -> str:
        return _renderers.get("text", repr)(self)

    def _repr_html_(self) -> str:
        """Returns what a notebook shows of the record: a piece of HTML without scripts, which loads nothing."""
        return _renderers.get("html", _render_plain)(self)


def show_with(*, text: Renderer, html: Renderer) -> None:
    """Sets the functions by which all records render themselves: as text for `print`, and as HTML for a notebook."""
    _renderers.update(text=text, html=html)


def _render_plain(record: Shown) -> str:
    return f"<pre>{escape(repr(record))}</pre>\n"


_renderers: dict[str, Renderer] = {}
