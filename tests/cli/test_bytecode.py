"""A command keeps the bytecode of what it imports where nobody else does."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ligerdiag.bytecode import locate_bytecode

CODE = """
import sys
sys.pycache_prefix = {prefix!r}  # as if nothing were installed with its bytecode
from ligerdiag.bytecode import keep_own_bytecode
from pathlib import Path
keep_own_bytecode(Path({root!r}))
print(sys.dont_write_bytecode, sys.pycache_prefix)
"""


def run(root: Path, nowhere: Path, **variables: str) -> list[str]:
    code = CODE.format(root=str(root), prefix=str(nowhere))
    unset = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=unset | variables, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    return folder


def test_a_command_keeps_bytecode_in_the_cache(root: Path, tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    assert run(root, nowhere, PYTHONDONTWRITEBYTECODE="1") == ["False", str(locate_bytecode(root))]
    assert run(root, nowhere) == ["False", str(nowhere)], "Python keeps it beside the sources"


def test_bytecode_is_not_read_where_others_may_write(root: Path, tmp_path: Path) -> None:
    root.chmod(0o777)
    nowhere = tmp_path / "nowhere"
    assert run(root, nowhere, PYTHONDONTWRITEBYTECODE="1") == ["True", str(nowhere)]
    assert run(tmp_path / "missing", nowhere, PYTHONDONTWRITEBYTECODE="1") == ["True", str(nowhere)]
