"""Says which package is missing, and the `pip` command that installs it.

`ligerdiag inspect` also runs without JAX, jaxlib, Triton, the CUDA plugin and SciPy, which together are over a gigabyte
(docs/light-install.md). Code that needs one of them asks here first, so that a user reads a command and no traceback.
"""

import re
from collections.abc import Iterable
from importlib import metadata
from importlib.util import find_spec

NOT_INSTALLED = "which is not installed"
"""Text in every message of `describe_missing`."""
_NAME = re.compile(r"[\w.-]+")


def is_missing(module: str) -> bool:
    """Returns whether Python cannot find the top-level module. Does not import it."""
    return find_spec(module) is None


def describe_missing(purpose: str, package: str) -> str:
    """Returns one line such as "reading a kernel needs `triton`, which is not installed: `pip install 'triton>=3.6'`".

    purpose: the subject of the sentence, such as "reading a kernel".
    """
    return f"{purpose} needs `{package}`, {NOT_INSTALLED}: `{render_command([package])}`"


def render_command(packages: Iterable[str]) -> str:
    """Returns the `pip` command that installs packages in the versions that ligerdiag's metadata allows."""
    allowed = _read_requirements()
    return " ".join(["pip install", *(_quote(allowed.get(package, package)) for package in packages)])


def _quote(requirement: str) -> str:
    return requirement if _NAME.fullmatch(requirement) else f"'{requirement}'"


def _read_requirements() -> dict[str, str]:
    """Returns the requirements of ligerdiag without extras, by the package's name; {} if it is not installed."""
    try:
        lines = metadata.requires("ligerdiag") or []
    except metadata.PackageNotFoundError:
        return {}
    plain = [line for line in lines if ";" not in line]
    return {match[0]: line for line in plain if (match := _NAME.match(line)) is not None}
