"""Without `nvidia-cuda-nvcc` a CUDA installation does, if it is new enough; and which one is used is said."""

from importlib import metadata
from pathlib import Path

import pytest

from ligerdiag.errors import LigerdiagError
from ligerdiag.toolchains import toolchain as ptxas
from ligerdiag.toolchains.toolchain import (
    PACKAGE,
    compute_least_release,
    current_toolchain,
    describe_ptxas,
    find_system_ptxas,
)


def make_cuda(folder: Path, version: str, *programs: str) -> Path:
    folder.mkdir(parents=True)
    for name in programs or ("ptxas", "nvlink"):
        program = folder / name
        program.write_text(f"#!/bin/sh\necho 'Cuda compilation tools, release {version}, V{version}.7'\n")
        program.chmod(0o755)
    return folder


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without CUDA and without the package."""
    real = metadata.version

    def find_version(package: str) -> str:
        if package == PACKAGE:
            raise metadata.PackageNotFoundError(package)
        return real(package)

    monkeypatch.setattr(metadata, "version", find_version)
    monkeypatch.setattr(ptxas, "_LOCAL", tmp_path / "local")
    for name in ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    return tmp_path


def test_without_either_the_package_is_asked_for(machine: Path) -> None:
    with pytest.raises(LigerdiagError, match=f"without `{PACKAGE}`: install {PACKAGE}"):
        current_toolchain()


@pytest.mark.parametrize("place", ["PATH", "CUDA_HOME", "local"])
def test_a_new_enough_installation_takes_its_place(machine: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    make_cuda(machine / "local" / "cuda-13.0" / "bin", "13.0")
    newest = make_cuda(
        machine / "local" / "cuda-13.4" / "bin" if place == "local" else machine / "mine" / "bin", "13.4"
    )
    if place != "local":
        monkeypatch.setenv(place, str(newest if place == "PATH" else newest.parent))
    toolchain = current_toolchain()
    assert toolchain.binaries == (str(newest),)
    assert toolchain.versions["ptxas"] == "13.4.7"
    assert PACKAGE not in toolchain.versions
    said = describe_ptxas(toolchain.binaries, toolchain.versions)
    assert said == f"ptxas 13.4.7 of a CUDA installation ({newest}/ptxas)"


def test_an_older_one_is_refused_with_its_version(machine: Path) -> None:
    old = make_cuda(machine / "local" / "cuda-12.4" / "bin", "12.4")
    with pytest.raises(LigerdiagError, match=rf"`{old}/ptxas` is of CUDA 12.4.7, older than 13.0: install {PACKAGE}"):
        current_toolchain()


def test_a_folder_without_nvlink_does_not_do(machine: Path) -> None:
    make_cuda(machine / "local" / "cuda-13.4" / "bin", "13.4", "ptxas")
    assert find_system_ptxas() is None


def test_what_triton_ships_is_the_least(monkeypatch: pytest.MonkeyPatch) -> None:
    assert compute_least_release() >= (13, 0)
    monkeypatch.setattr(ptxas, "_read_version", lambda path: "13.9.1")
    assert compute_least_release() == (13, 9)


def test_the_package_is_named_where_it_is_used() -> None:
    toolchain = current_toolchain()
    version = toolchain.versions[PACKAGE]
    said = describe_ptxas(toolchain.binaries, toolchain.versions)
    assert said.startswith(f"ptxas {version} of {PACKAGE} {version} (")
