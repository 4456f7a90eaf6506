"""A command keeps the bytecode of its imports in the cache if nothing else stores it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ligerdiag.cache_root import locate_bytecode

ROOT = Path(__file__).parents[2]

CODE = """
import sys
from pathlib import Path
from ligerdiag.cache_root import keep_own_bytecode
keep_own_bytecode(Path({root!r}))
print(sys.dont_write_bytecode, sys.pycache_prefix)
"""


def run(root: Path, **variables: str) -> list[str]:
    """Runs a Python in which typer was installed without bytecode."""
    (installed := root.parent / "installed" / "typer").mkdir(parents=True, exist_ok=True)
    (installed / "__init__.py").touch()
    unset = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    variables["PYTHONPATH"] = os.pathsep.join((str(installed.parent), str(ROOT)))
    code = CODE.format(root=str(root))
    done = subprocess.run(
        [sys.executable, "-c", code], env=unset | variables, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    return folder


def test_a_command_keeps_bytecode_in_the_cache(root: Path) -> None:
    assert run(root, PYTHONDONTWRITEBYTECODE="1") == ["False", str(locate_bytecode(root))]


def test_a_command_respects_python_s_own_settings(root: Path) -> None:
    assert run(root) == ["False", "None"]
    assert run(root, PYTHONDONTWRITEBYTECODE="1", PYTHONPYCACHEPREFIX="/mine") == ["True", "/mine"]


def test_bytecode_is_not_read_from_folders_that_others_may_write(root: Path, tmp_path: Path) -> None:
    root.chmod(0o777)
    assert run(root, PYTHONDONTWRITEBYTECODE="1") == ["True", "None"]
    assert run(tmp_path / "missing", PYTHONDONTWRITEBYTECODE="1") == ["True", "None"]
