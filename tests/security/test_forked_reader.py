"""A sandboxed process that a template server has forked gives up the same rights as one that starts by itself."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ligerdiag.artifacts.cache import Cache
from ligerdiag.inspection.module_inspection import InspectionRequest
from ligerdiag.sandbox.inspector import SandboxedInspector
from ligerdiag.workers import templates

RIGHTS = re.compile(r"^(?:Cap\w+|NoNewPrivs|Seccomp\w*|Uid|Gid|Groups):.*$", re.MULTILINE)


@contextmanager
def open_reader(folder: Path) -> Iterator[tuple[SandboxedInspector, Path]]:
    """Yields an inspector whose process has answered once, and the process's folder in /proc."""
    with SandboxedInspector(InspectionRequest(timeout=60), cache=Cache(folder / "cache")) as inspector:
        inspector.inspect_artifact(folder / "nothing")
        yield inspector, Path("/proc", str(inspector._child._process.pid))  # pyright: ignore


def find_parent(process: Path) -> int:
    return int((process / "stat").read_text().rpartition(")")[2].split()[1])


def read_rights(process: Path) -> tuple[list[str], str, list[str]]:
    """Returns the rights, the limits and the networks of a process."""
    networks = (process / "net" / "dev").read_text().splitlines()[2:]
    return (
        RIGHTS.findall((process / "status").read_text()),
        (process / "limits").read_text(),
        [line.partition(":")[0].strip() for line in networks],
    )


def test_a_forked_process_has_no_more_rights_than_one_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_reader(tmp_path) as (inspector, process):
        assert find_parent(process) != os.getpid(), "it was not forked by the template server"
        forked, confinement = read_rights(process), inspector.confinement
        descriptors = [os.readlink(one) for one in (process / "fd").iterdir()]
        assert os.getpgid(int(process.name)) == int(process.name)
    monkeypatch.delenv(templates.VARIABLE)
    with open_reader(tmp_path) as (inspector, process):
        assert find_parent(process) == os.getpid()
        assert (forked, confinement) == (read_rights(process), inspector.confinement)
    # no connection to the template or its server, and no pipe of another process
    assert sum(one.startswith("socket:") for one in descriptors) == 1
    assert not [one for one in descriptors if one.startswith(("pipe:", "anon_inode:"))]
