"""Prepares pages for the documentation site; mkdocs.yml names this module as its hooks.

The pages are written for readers of the repository, too, so two things differ on the site:

- A link to a file outside of docs/ leads to that file in the repository, at the address in pyproject.toml.
- The words after the language of a block, such as `not-run=setup`, are for the tests that run the block, and go.

The theme needs help: a wide table scrolls by itself, also with the keyboard (docs/site.css), an empty head of a column
is no head, and the search has a name for screen readers. Search engines are sent to the newest version of a page.
"""

import os
import re
import tomllib
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

ROOT = Path(__file__).parents[1]

_FENCE = re.compile(r"^(?P<fence>```\w+)(?: [^\n]*)?$", re.MULTILINE)
_LINK = re.compile(r"\]\((?P<path>\.\./[^)#\s]*)(?P<anchor>#[^)\s]*)?\)")


_EMPTY_HEAD = re.compile(r"<th([^>]*)></th>")
_SEARCH = '<div class="md-search" data-md-component="search" role="dialog"'


@cache
def read_address(name: str) -> str:
    """Returns an address of `[project.urls]`, without a slash at its end. name: such as `Source`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["urls"][name]).rstrip("/")


def on_config(config: Any, **_: Any) -> Any:
    """Sets the address of the site if mike builds the pages of one version; MkDocs calls it once.

    config: the `mkdocs.config.defaults.MkDocsConfig`, which is returned.
    """
    if os.environ.get("MIKE_DOCS_VERSION"):
        config.site_url = f"{read_address('Documentation')}/latest/"
    return config


def on_page_content(html: str, **_: Any) -> str:
    """Returns the contents of a page with each table in a box that scrolls; MkDocs calls it for each page."""
    html = _EMPTY_HEAD.sub(r"<td\1></td>", html)
    return html.replace("<table>", '<div class="scrolling" tabindex="0"><table>').replace("</table>", "</table></div>")


def on_post_page(output: str, **_: Any) -> str:
    """Returns a whole page, with a name for the search; MkDocs calls it for each page."""
    return output.replace(_SEARCH, f'{_SEARCH} aria-label="Search"')


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Returns the text of a page for the site; MkDocs calls it for each page.

    page: the `mkdocs.structure.pages.Page`.
    """
    return prepare(markdown, PurePosixPath(page.file.src_uri))


def prepare(markdown: str, page: PurePosixPath) -> str:
    """Returns the text of a page for the site. page: its path below docs/."""

    def lead(link: re.Match[str]) -> str:
        steps = ["docs", *page.parent.parts]
        for part in PurePosixPath(link["path"]).parts:
            steps = steps[:-1] if part == ".." else [*steps, part]
        if steps[:1] == ["docs"]:
            return link[0]
        return f"]({read_address('Source')}/blob/main/{'/'.join(steps)}{link['anchor'] or ''})"

    return _LINK.sub(lead, _FENCE.sub(r"\g<fence>", markdown))
