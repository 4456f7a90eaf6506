"""Prepares pages for the documentation site; mkdocs.yml names this module as its hooks.

The pages are written for readers of the repository, too, so two things differ on the site:

- A link to a file outside of docs/ leads to that file in the repository, at the address in pyproject.toml.
- The words after the language of a block, such as `not-run=setup`, are for the tests that run the block, and go.
"""

import re
import tomllib
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

ROOT = Path(__file__).parents[1]

_FENCE = re.compile(r"^(?P<fence>```\w+)(?: [^\n]*)?$", re.MULTILINE)
_LINK = re.compile(r"\]\((?P<path>\.\./[^)#\s]*)(?P<anchor>#[^)\s]*)?\)")


@cache
def read_repository() -> str:
    """Returns the repository's address, without a slash at its end."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["urls"]["Source"]).rstrip("/")


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
        return f"]({read_repository()}/blob/main/{'/'.join(steps)}{link['anchor'] or ''})"

    return _LINK.sub(lead, _FENCE.sub(r"\g<fence>", markdown))
