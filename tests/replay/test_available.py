"""Available memory: the operating system's estimate, or the rest of a container's limit if that is less."""

from pathlib import Path

import pytest

from ligerdiag.replay.replay_worker import compute_available_bytes

MIB = 1 << 20


@pytest.fixture
def meminfo(tmp_path: Path) -> Path:
    path = tmp_path / "meminfo"
    path.write_text("MemTotal:       2048 kB\nMemFree:   1 kB\nMemAvailable:    1024 kB\n")
    return path


def write_group(folder: Path, limit: str, used: int, inactive: int) -> Path:
    (folder / "memory.max").write_text(f"{limit}\n")
    (folder / "memory.current").write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 7\ninactive_file {inactive}\n")
    return folder


def test_a_machine_without_a_limit_has_the_system_s_estimate(meminfo: Path, tmp_path: Path) -> None:
    assert compute_available_bytes(meminfo, tmp_path / "none") == MIB
    assert compute_available_bytes(meminfo, write_group(tmp_path, "max", 5, 0)) == MIB


@pytest.mark.parametrize(("used", "inactive", "left"), [(300, 0, 700), (900, 500, 600), (2000, 0, 0), (0, 0, 1000)])
def test_a_container_has_the_rest_of_its_limit(
    meminfo: Path, tmp_path: Path, used: int, inactive: int, left: int
) -> None:
    assert compute_available_bytes(meminfo, write_group(tmp_path, "1000", used, inactive)) == left


def test_this_machine_has_available_memory() -> None:
    assert compute_available_bytes() > MIB
