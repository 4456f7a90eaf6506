"""A worker drops the project's own modules before it reads another source, and keeps the installed ones."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CASE = """
import jax.numpy as jnp
from ligerdiag import Arg, Case
{}
CASE = Case(name='{}', function=jnp.sin, args=(Arg(shape=(4,)),))
"""
LOAD = """
import sys
from pathlib import Path
import library
from ligerdiag.compile.cases.loader import CaseLoader
from ligerdiag.model.jobs import Source

loader = CaseLoader()
for file in sys.argv[1:]:
    print(*loader.load(Source(file=file, root=str(Path(file).parent))))
print(library is sys.modules.get("library"), "spread.inside" in sys.modules)
"""


def write(file: Path, text: str = "") -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """Returns a folder in the layout of `pip install --target`, with one part of the namespace `spread`; `nvidia` is
    such a namespace.
    """
    folder = tmp_path / "target"
    write(folder / "part-1.0.dist-info" / "METADATA", "Name: part\nVersion: 1.0\n")
    write(folder / "library.py", "import spread.inside\n")
    write(folder / "spread" / "beside" / "__init__.py")
    return folder


def load(paths: list[Path], *files: Path) -> str:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (*paths, ROOT)))}
    done = subprocess.run(
        [sys.executable, "-P", "-c", LOAD, *map(str, files)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_namespace_that_is_spread_over_installed_folders_outlives_each_source(
    tmp_path: Path, installed: Path
) -> None:
    """JAX on a GPU imports `nvidia.cudnn` from one folder while another one has `nvidia.cu13`. The second folder is not
    a `site-packages`, so `nvidia` was taken for the project's and dropped, and the third source ended the worker
    with KeyError: 'nvidia'.
    """
    other = tmp_path / "lib" / "site-packages"
    write(other / "spread" / "inside" / "part" / "module.py")
    files = [write(tmp_path / "mine" / f"{name}.py", CASE.format("", name)) for name in ("one", "two", "three")]
    assert load([installed, other], *files) == "one\ntwo\nthree\nTrue True\n"


def test_a_namespace_shared_with_an_installed_package_includes_the_project_s_part(
    tmp_path: Path, installed: Path
) -> None:
    other = tmp_path / "lib" / "site-packages"
    write(other / "spread" / "inside" / "part" / "module.py")
    mine = tmp_path / "mine"
    write(mine / "spread" / "own" / "mine.py", "value = 1\n")
    imports = "import spread.own.mine"
    files = [write(mine / f"{name}.py", CASE.format(imports, name)) for name in ("one", "two", "three")]
    assert load([installed, other], *files) == "one\ntwo\nthree\nTrue True\n"


def test_a_module_in_the_project_s_own_namespace_is_imported_again(tmp_path: Path, installed: Path) -> None:
    write(installed / "library.py")
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        write(folder / "shared" / "deep" / "module.py", f"name = '{folder.name}'\n")
        text = CASE.replace("'{}'", "name").format("from shared.deep.module import name")
        write(folder / "case.py", text)
    assert load([installed], first / "case.py", second / "case.py", first / "case.py") == (
        "first\nsecond\nfirst\nTrue False\n"
    )
