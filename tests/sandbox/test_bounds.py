"""Inputs with which a stranger could once make `inspect` take minutes or gigabytes, or wait forever. Each now costs
little and gets one line.

The bounds are several times what the runs take now, and a fraction of what they once took.
"""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ligerdiag.untrusted_files import BASE_MEMORY_BYTES
from tests.sandbox.hostile import (
    DUMPED,
    make_doubling_calls,
    measure,
    write_artifact,
    write_empty_members,
    write_fifo_manifest,
    write_sparse,
)

SECONDS = 20.0
"""Processor time of a run with --timeout 1: two processes start, and each module has one second."""
MEMORY = BASE_MEMORY_BYTES // 2
SPARSE = 2 << 30
HUGE_FIELD = b"\x0a\xf0\xff\xff\xff\x07\x0a\x0bcustom-call"
"""The beginning of a protobuf whose only field takes nearly 2 GiB."""

HOSTILE: dict[str, tuple[Callable[[Path], Path], str]] = {
    "calls": (lambda folder: write_artifact(folder / "a", make_doubling_calls(40)).parent, "takes more than 1 s"),
    "fifo": (write_fifo_manifest, "manifest.json` is not a file"),
    "members": (lambda folder: write_empty_members(folder, 11 << 20), "a gzip file of more than 65536 members"),
    "zeros": (lambda folder: write_sparse(folder, f"{DUMPED}.hlo.pb", b"", SPARSE), "of memory"),
    "hole": (lambda folder: write_sparse(folder, f"{DUMPED}.hlo.pb", HUGE_FIELD, SPARSE), "of memory"),
    "hole in text": (lambda folder: write_sparse(folder, f"{DUMPED}.txt", b"HloModule m\n", SPARSE), "of memory"),
    "hole in gzip": (
        lambda folder: write_sparse(folder, f"{DUMPED}.txt.gz", gzip.compress(b"HloModule m\n"), SPARSE),
        "of memory",
    ),
}


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def test_memory_of_the_test_process_is_not_counted(cache: Path) -> None:
    held = b"x" * (MEMORY * 2)
    assert measure("--version", cache=cache).memory < MEMORY < len(held)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_input_costs_bounded_work(name: str, tmp_path: Path, cache: Path) -> None:
    write, said = HOSTILE[name]
    cost = measure("inspect", "--timeout", "1", write(tmp_path / "hostile"), cache=cache)
    assert cost.code == 3, cost
    assert "1 could not analyse" in cost.said
    assert said in cost.said
    assert cost.seconds < SECONDS
    assert cost.memory < MEMORY


def test_a_good_module_beside_hostile_ones_is_judged(tmp_path: Path, cache: Path) -> None:
    for name, (write, _) in HOSTILE.items():
        write(tmp_path / "all" / name)
    write_artifact(tmp_path / "all" / "z", make_doubling_calls(2))
    cost = measure("inspect", "--timeout", "1", "--format", "json", tmp_path / "all", cache=cache)
    cases = json.loads(cost.said)["cases"]
    assert len(cases) == len(HOSTILE) + 1
    assert [case["outputs"] for case in cases if not case["error"]] == [{"y": "unknown"}]
    assert cost.code == 3
    assert cost.seconds < SECONDS * 2
    assert cost.memory < MEMORY
