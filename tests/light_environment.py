"""An environment that has only the packages of docs/inspect-requirements.txt: links to those of this environment."""

import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from tools.documents import ROOT

REQUIREMENTS = ROOT / "docs" / "inspect-requirements.txt"
_NAME = re.compile(r"[\w.-]+")
_OF_OTHERS = re.compile(r"extra\s*==|platform_system\s*==\s*.Windows|sys_platform\s*==\s*.win32|python_version\s*<")
"""Matches the condition of a requirement that does not apply here."""


def list_requirements() -> tuple[str, ...]:
    """Returns the lines of docs/inspect-requirements.txt without comments."""
    lines = REQUIREMENTS.read_text(encoding="utf-8").splitlines()
    return tuple(line for line in lines if line and not line.startswith("#"))


@pytest.fixture(scope="session")
def light_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the Python of an environment in which JAX, jaxlib, Triton, the CUDA plugin and SciPy cannot be imported."""
    folder = tmp_path_factory.mktemp("light")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=600)
    (site,) = folder.glob("lib/python*/site-packages")
    names = [_find_name(line) for line in list_requirements()]
    for distribution in _find_needed(names):
        _link(distribution, site)
    (site / "ligerdiag.pth").write_text(f"{ROOT}\n", encoding="utf-8")
    described = Path(str(metadata.distribution("ligerdiag").locate_file("")))
    for path in described.glob("ligerdiag-*.dist-info"):
        (site / path.name).symlink_to(path)
    return folder / "bin" / "python"


def measure_megabytes(python: Path) -> float:
    """Returns the size of the environment's packages, without bytecode, in 10^6 bytes."""
    (site,) = python.parents[1].glob("lib/python*/site-packages")
    files = (Path(folder) / name for folder, _, names in os.walk(site, followlinks=True) for name in names)
    return sum(file.stat().st_size for file in files if file.suffix != ".pyc") / 1e6


def _find_name(requirement: str) -> str:
    match = _NAME.match(requirement)
    assert match is not None, requirement
    return match[0]


def _find_needed(names: list[str]) -> list[metadata.Distribution]:
    found: dict[str, metadata.Distribution] = {}
    while names:
        name = re.sub(r"[-_.]+", "-", names.pop()).lower()
        if name not in found:
            found[name] = metadata.distribution(name)
            names += [_find_name(line) for line in found[name].requires or () if not _OF_OTHERS.search(line)]
    return list(found.values())


def _link(distribution: metadata.Distribution, site: Path) -> None:
    for top in {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
        if not (site / top).exists():
            (site / top).symlink_to(Path(str(distribution.locate_file(top))))
