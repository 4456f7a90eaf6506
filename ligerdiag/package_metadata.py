"""Finds the version of ligerdiag, and the address of its documentation on the web.

Both come from the metadata of the installed package, or from the pyproject.toml of a source tree that is not installed.
That file names the address once, as the project's URL `Documentation`; no other file repeats it. The site has a folder
for each minor version (`0.1/`), so a link in an old report still leads to the page that the report was written with.
"""

import re
import tomllib
from functools import cache
from pathlib import Path, PurePosixPath

UNKNOWN = "unknown"
LATEST = "latest"
"""The folder of the newest version on the site."""
_MINOR = re.compile(r"\d+\.\d+")


def compute_version() -> str:
    """Returns the version of ligerdiag, or `unknown` if it is neither installed nor a source tree."""
    return _read_metadata()[0]


def compute_page_address(page: str) -> str:
    """Returns the web address of a page of the documentation, such as `https://…/0.1/rules/ld001-stale-read/`.

    Empty if the address of the documentation is unknown. page: the path of the Markdown file below docs/.
    """
    version, site = _read_metadata()
    path = PurePosixPath(page)
    folder = (path.parent if path.stem == "README" else path.with_suffix("")).as_posix()
    return site and f"{site}/{compute_site_folder(version)}/{'' if folder == '.' else f'{folder}/'}"


def compute_site_folder(version: str) -> str:
    """Returns the folder of a version on the documentation's site, such as `0.1` for 0.1.3.

    Returns `latest` if the version is unknown.
    """
    minor = _MINOR.match(version)
    return LATEST if minor is None else minor[0]


@cache
def _read_metadata() -> tuple[str, str]:
    """Returns (version, address of the documentation without a slash at its end)."""
    from importlib import metadata

    try:
        found = metadata.metadata("ligerdiag")
    except metadata.PackageNotFoundError:
        return _read_source_tree(Path(__file__).parents[1])
    urls = dict(line.split(", ", 1) for line in found.get_all("Project-URL") or ())
    return found["Version"], urls.get("Documentation", "").rstrip("/")


def _read_source_tree(folder: Path) -> tuple[str, str]:
    """Returns what `_read_metadata` returns, from the source tree of ligerdiag in the folder, if it is there."""
    try:
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    except (OSError, ValueError, KeyError):
        return UNKNOWN, ""
    if project.get("name") != "ligerdiag":
        return UNKNOWN, ""
    return project.get("version", UNKNOWN), project.get("urls", {}).get("Documentation", "").rstrip("/")
