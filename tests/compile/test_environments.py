"""Real uv environments of one small wheel built here, without a package index."""

import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from ligerdiag.artifacts.cache import Cache
from ligerdiag.errors import InputError
from ligerdiag.toolchains.environments import (
    create_environment,
    describe_toolchain,
    find_differences,
    find_uv,
    locate_environment,
)
from ligerdiag.toolchains.rocm_libraries import FOLDER, load_libraries
from ligerdiag.toolchains.toolchain import Platform
from ligerdiag.toolchains.toolchain_table import ToolchainSpec
from tests.compile.test_rocm_libraries import needs_x86

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


def make_spec(python: str = PYTHON, **packages: str) -> ToolchainSpec:
    return ToolchainSpec(
        name="tiny",
        about="",
        python=python,
        packages=packages or {"tiny_package": "1.0"},
        options={"flag": 1},
    )


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cache:
    """An empty cache, and a uv that has one wheel and no index."""
    try:
        find_uv(tmp_path)
    except InputError as error:
        pytest.skip(str(error))
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    with zipfile.ZipFile(wheels / "tiny_package-1.0-py3-none-any.whl", "w") as wheel:
        about = "tiny_package-1.0.dist-info"
        wheel.writestr("tiny_package.py", "ANSWER = 42\n")
        wheel.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: tiny-package\nVersion: 1.0\n")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/RECORD", "")
    monkeypatch.setenv("UV_FIND_LINKS", str(wheels))
    monkeypatch.setenv("UV_NO_INDEX", "1")
    monkeypatch.setenv("UV_PYTHON_DOWNLOADS", "never")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    return Cache(tmp_path / "cache")


def ignore(line: str) -> None:
    del line


def list_leftovers(cache: Cache) -> list[str]:
    return sorted(path.name for path in (cache.root / "toolchains").iterdir() if path.name.startswith("."))


def test_an_environment_has_the_pins_and_its_worker_finds_them(cache: Cache) -> None:
    spec, said = make_spec(), list[str]()
    directory = create_environment(spec, cache, said.append)
    toolchain = describe_toolchain(spec, directory)
    code = "import sys, tiny_package; print(tiny_package.ANSWER, '.'.join(map(str, sys.version_info[:3])))"
    done = subprocess.run([toolchain.python, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["42", toolchain.versions["python"]]
    assert not toolchain.is_own
    assert toolchain.versions["tiny_package"] == "1.0"
    assert toolchain.options == {"flag": 1}
    assert find_differences(spec, directory) == ()
    assert said[0] == "creating toolchain tiny: 1 packages, some of them large"
    assert list_leftovers(cache) == []


def test_an_existing_environment_is_used_unchanged(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, said = make_spec(), list[str]()
    first = create_environment(spec, cache, ignore)
    monkeypatch.setattr("ligerdiag.toolchains.environments.find_uv", None)
    assert create_environment(spec, cache, said.append) == first
    assert said == []


def test_two_processes_create_the_same_environment_once(cache: Cache) -> None:
    spec, said = make_spec(), list[str]()
    with ThreadPoolExecutor(2) as executor:
        made = list(executor.map(lambda _: create_environment(spec, cache, said.append), range(2)))
    assert made[0] == made[1]
    assert len([line for line in said if line.startswith("creating")]) == 1


def test_differences_from_the_pins_are_reported(cache: Cache) -> None:
    directory = create_environment(make_spec(), cache, ignore)
    assert find_differences(make_spec(tiny_package="1.1"), directory) == ("tiny_package 1.0 instead of 1.1",)
    assert find_differences(make_spec(other="1.0"), directory) == ("no other",)


def test_an_environment_without_its_interpreter_is_created_again(cache: Cache) -> None:
    directory = create_environment(make_spec(), cache, ignore)
    (directory / "bin" / "python").unlink()
    assert create_environment(make_spec(), cache, ignore) == directory
    assert find_differences(make_spec(), directory) == ()


def test_an_environment_without_packages_fails_with_a_remedy_and_leaves_nothing(cache: Cache) -> None:
    spec = make_spec(absent_package="3.0")
    with pytest.raises(
        InputError, match=r"cannot create toolchain `tiny`: this needs a package index .* uv says: "
    ) as told:
        create_environment(spec, cache, ignore)
    assert str(locate_environment(spec, cache)) in str(told.value)
    assert "\n" not in str(told.value)
    assert list((cache.root / "toolchains").iterdir()) == []


def test_a_missing_python_is_reported_with_its_version(cache: Cache) -> None:
    with pytest.raises(InputError, match=r"this needs a Python 3\.99; or copy "):
        create_environment(make_spec(python="3.99"), cache, ignore)
    assert list((cache.root / "toolchains").iterdir()) == []


def test_an_interrupted_creation_leaves_nothing(cache: Cache) -> None:
    def interrupt(line: str) -> None:
        if not line.startswith("creating"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        create_environment(make_spec(absent_package="3.0"), cache, interrupt)
    assert list((cache.root / "toolchains").iterdir()) == []


@needs_x86
def test_an_environment_for_rocm_has_the_libraries_in_place_of_rocm_s(cache: Cache) -> None:
    spec = replace(make_spec(), platform=Platform.ROCM)
    assert spec.directory_name != make_spec().directory_name
    directory = create_environment(spec, cache, ignore)
    assert find_differences(spec, directory) == ()
    assert describe_toolchain(spec, directory).platform is Platform.ROCM
    names = sorted(library.soname for library in load_libraries())
    assert sorted(path.name for path in (directory / FOLDER).iterdir()) == names
    (directory / FOLDER / names[0]).unlink()
    assert find_differences(spec, directory) == (f"no {names[0]}",)
    assert find_differences(make_spec(), directory) == ()
