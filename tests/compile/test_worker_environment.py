"""A worker of another interpreter finds ligerdiag, and no other package installed beside it."""

import os
import py_compile
import subprocess
import sys
from importlib.machinery import ModuleSpec
from importlib.util import cache_from_source
from pathlib import Path

import pytest

from ligerdiag import cache_root
from ligerdiag.errors import CASE_PATH
from ligerdiag.toolchains import toolchain as toolchain_module
from ligerdiag.toolchains.toolchain import Toolchain, current_toolchain, worker_environment

CHECK = "JAX_SKIP_CUDA_CONSTRAINTS_CHECK"


def make_toolchain(python: str) -> Toolchain:
    return Toolchain(name="t", python=python, versions={})


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an installed ligerdiag, next to a package that must stay hidden."""
    folder = tmp_path / "lib" / "site-packages"
    for package in ("ligerdiag", "jax"):
        (folder / package).mkdir(parents=True)
        (folder / package / "__init__.py").touch()
    monkeypatch.setattr(toolchain_module, "__file__", str(folder / "ligerdiag" / "compile" / "toolchain.py"))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    return folder


def test_another_interpreter_sees_only_the_installed_package(installed: Path, tmp_path: Path) -> None:
    for _ in range(2):  # the second time the link already exists
        environment = worker_environment(make_toolchain("/other/python"), tmp_path)
    code = "import ligerdiag, importlib.util; print(ligerdiag.__file__, importlib.util.find_spec('jax'))"
    done = subprocess.run(
        [sys._base_executable, "-P", "-c", code],  # type: ignore[attr-defined]
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    file, jax = done.stdout.split()
    assert Path(file).resolve() == installed / "ligerdiag" / "__init__.py"
    assert jax == "None"
    assert environment[CHECK] == "1"


def test_our_own_interpreter_needs_no_path_to_an_installed_package(installed: Path, tmp_path: Path) -> None:
    environment = worker_environment(make_toolchain(sys.executable), tmp_path)
    assert "PYTHONPATH" not in environment
    assert CHECK not in environment, "a worker on a real GPU is to have its versions checked"
    assert not (tmp_path / "packages").exists()


@pytest.fixture
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A PYTHONPATH with a folder of the user's project, a relative one, and one that `pip install --target` made."""
    target = tmp_path / "target"
    (target / "part-1.0.dist-info").mkdir(parents=True)
    (tmp_path / "source").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(tmp_path / "source"), "target", "relative", "")))
    return tmp_path, target


def test_a_worker_starts_with_installed_packages_only(given: tuple[Path, Path], tmp_path: Path) -> None:
    here, target = given
    root = str(Path(toolchain_module.__file__).parents[2])
    environment = worker_environment(make_toolchain(sys.executable), tmp_path)
    assert environment["PYTHONPATH"].split(os.pathsep) == [str(target), root]
    whole = [str(here / "source"), str(target), str(here / "relative"), str(here)]
    assert environment[CASE_PATH].split(os.pathsep) == whole


def test_another_interpreter_gets_none_of_our_packages(given: tuple[Path, Path], tmp_path: Path) -> None:
    environment = worker_environment(make_toolchain("/other/python"), tmp_path)
    assert str(given[1]) not in environment["PYTHONPATH"].split(os.pathsep)


@pytest.mark.parametrize("given", ["", None, "/mine"])
def test_importing_jax_triton_in_the_user_s_process_does_not_move_triton_s_files(
    given: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if given is None:
        monkeypatch.delenv("TRITON_CACHE_DIR", raising=False)
    else:
        monkeypatch.setenv("TRITON_CACHE_DIR", given)
    environment = worker_environment(make_toolchain(sys.executable), tmp_path)
    assert environment["TRITON_CACHE_DIR"] == (given or str(tmp_path / "triton"))


@pytest.mark.parametrize("has_bytecode", [False, True])
def test_a_worker_compiles_the_sources_of_jax_once_if_nothing_else_does(
    has_bytecode: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "packages" / "jax" / "__init__.py"
    source.parent.mkdir(parents=True)
    source.write_text("")
    if has_bytecode:
        py_compile.compile(
            str(source), cfile=str(source.parent / "__pycache__" / Path(cache_from_source(str(source))).name)
        )
    monkeypatch.setattr(cache_root, "find_spec", lambda _: ModuleSpec("jax", None, origin=str(source)))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setattr(sys, "pycache_prefix", str(prefix := tmp_path / "bytecode"))  # as a command sets it
    (compiled := Path(cache_from_source(str(source)))).parent.mkdir(parents=True)
    compiled.touch()
    environment = worker_environment(make_toolchain(sys.executable), tmp_path)
    assert ("PYTHONDONTWRITEBYTECODE" in environment) == has_bytecode
    assert environment.get("PYTHONPYCACHEPREFIX") == (None if has_bytecode else str(prefix))


def test_the_user_s_own_bytecode_folder_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", "/mine")
    environment = worker_environment(make_toolchain("/other/python"), tmp_path)
    assert environment["PYTHONDONTWRITEBYTECODE"] == "1"
    assert environment["PYTHONPYCACHEPREFIX"] == "/mine"


def test_a_version_installed_meanwhile_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    os.utime(tmp_path, (1, 1))
    before = current_toolchain()
    assert current_toolchain() == before
    (tmp_path / "triton-99.0.dist-info").mkdir()
    (tmp_path / "triton-99.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: triton\nVersion: 99.0\n")
    assert current_toolchain().versions == {**before.versions, "triton": "99.0"}
