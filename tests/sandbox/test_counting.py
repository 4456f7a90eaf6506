"""The modules of a text are counted inside the sandbox: each file once, and all texts together within limits."""

import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ligerdiag.api.inspecting import select_modules
from ligerdiag.dumps import find
from ligerdiag.dumps.find import ModuleCounter, count_modules
from tests.sandbox.hostile import ROOT, measure, write_sparse

TEXT = b"HloModule a\n\nENTRY e {\n  ROOT x = f32[] parameter(0)\n}\n\n"
PARENT = """
import sys
from pathlib import Path
from ligerdiag.api.inspecting import inspect
from ligerdiag.run_options import InspectOptions
from ligerdiag.dumps import content, find
from ligerdiag.dumps.text_worker import Translator

def refuse(*_):
    raise SystemExit("the parent reads it")

for module in (content, find):
    module.read_content = refuse
print(len(inspect(InspectOptions(paths=(Path(sys.argv[1]),), cache_directory=Path(sys.argv[2]))).notes))
"""


def test_the_parent_reads_no_text_to_count_its_modules(tmp_path: Path) -> None:
    (tmp_path / "two.hlo").write_bytes(TEXT * 2)
    command = [sys.executable, "-c", PARENT, str(tmp_path / "two.hlo"), str(tmp_path / "cache")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_text_that_unpacks_to_gigabytes_costs_a_bounded_process(tmp_path: Path) -> None:
    """1.3 MB that unpack to 250 MB: no process holds them twice, and the report says so."""
    packed = gzip.compress(b"HloModule m\n" + b"\n" * (250 << 20), compresslevel=9)
    path = tmp_path / "step.hlo.gz"
    path.write_bytes(packed + os.urandom(1 << 20))
    cost = measure("inspect", path, cache=tmp_path / "cache")
    assert cost.code == 3
    assert "1 could not analyse" in cost.said


def test_links_to_the_same_file_count_once(tmp_path: Path) -> None:
    write_sparse(tmp_path / "d", "a.hlo", b"HloModule m\n", 64 << 20)
    for number in range(12):
        (tmp_path / "d" / f"b{number}.hlo").symlink_to("a.hlo")
        os.link(tmp_path / "d" / "a.hlo", tmp_path / "d" / f"c{number}.hlo")
    asked: list[Path] = []

    def count(path: Path) -> int:
        asked.append(path)
        return 1

    selection = select_modules([tmp_path / "d", tmp_path / "d" / "b3.hlo"], count=count)
    assert len(asked) == 1
    assert [module.optimized[0].name for module in selection.modules] == ["a.hlo", "b3.hlo"]
    assert "24 files left out, because they are other names of files that are inspected" in selection.notes


def test_all_texts_together_have_one_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        (tmp_path / f"{number}.hlo").write_bytes(TEXT * 3)
    monkeypatch.setattr(find, "MAXIMUM_MODULES_IN_TEXTS", 7)
    selection = select_modules([tmp_path], count=count_modules)
    assert len(selection.modules) == 3 + 3 + 1 + 1
    assert any(note.startswith("2 files not searched for further modules") for note in selection.notes)
    monkeypatch.setattr(find, "MAXIMUM_MODULES_IN_TEXTS", 100)
    monkeypatch.setattr(find, "MAXIMUM_COUNTED_BYTES", len(TEXT) * 3 * 2)
    assert len(select_modules([tmp_path], count=count_modules).modules) == 3 + 3 + 1 + 1


def test_counting_stops_after_a_few_texts_that_took_too_much(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"{number:02}.hlo").write_bytes(TEXT)
    asked: list[Path] = []

    def fail(path: Path) -> None:
        asked.append(path)

    counter = ModuleCounter(fail)
    assert len(find.find_modules(tmp_path, counter).modules) == 20
    assert len(asked) == find.MAXIMUM_UNCOUNTED
    assert counter.unsplit == 20 - len(asked)


def test_several_modules_of_one_text_are_inspected_one_by_one(tmp_path: Path) -> None:
    (tmp_path / "two.hlo").write_bytes(TEXT * 2)
    cost = measure("inspect", tmp_path / "two.hlo", cache=tmp_path / "cache")
    assert "nothing to check: 2 modules" in cost.said
