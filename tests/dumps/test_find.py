"""Finds the compilations that a path holds."""

import os
from pathlib import Path

import pytest

from ligerdiag.api.inspecting import select_modules
from ligerdiag.dumps import find
from ligerdiag.dumps.find import find_modules
from ligerdiag.errors import InputError
from tests.dumps.conftest import Pick, only


def touch(folder: Path, *names: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_bytes(b"")


def test_a_real_dump_is_one_module_with_its_best_forms_first(dumps: Path) -> None:
    module = only(dumps / "losses")
    assert module.id.endswith(".jit_compute")
    assert module.id.startswith("module_")
    assert module.target == "sm_9.0a"
    assert [path.name.split("optimizations")[1] for path in module.optimized] == [".hlo.pb", ".txt"]
    assert [path.name.split("optimizations")[1] for path in module.program] == [".hlo.pb", ".txt"]
    assert len(module.buffers) == 1


def test_snapshots_timestamps_and_packed_protobufs_are_recognised(dumps: Path) -> None:
    dump = find_modules(dumps / "passes")
    (module,) = dump.modules
    assert module.optimized[0].name.endswith(".hlo.pb.gz")
    assert dump.snapshots > 50


def test_hosts_numbers_and_timestamps_distinguish_modules(tmp_path: Path) -> None:
    after, before = "jit_f.sm_9.0_gpu_after_optimizations.txt", "jit_f.before_optimizations.txt"
    for host in ("host0", "host1"):
        touch(tmp_path / host, f"module_0001.{after}", f"module_0001.{before}", f"module_0002.{after}")
    touch(tmp_path, f"11.module_0001.{after}", f"12.module_0001.{after}", f"12.module_0001.{before}")
    dump = find_modules(tmp_path)
    assert [(module.id, len(module.program)) for module in dump.modules] == [
        ("11.module_0001.jit_f", 0),
        ("12.module_0001.jit_f", 1),
        ("host0/module_0001.jit_f", 1),
        ("host0/module_0002.jit_f", 0),
        ("host1/module_0001.jit_f", 1),
        ("host1/module_0002.jit_f", 0),
    ]


def test_runs_on_two_gpus_in_one_folder_are_two_modules(tmp_path: Path) -> None:
    before = "module_0001.jit_f.before_optimizations.hlo.pb"
    after = [f"module_0001.jit_f.{target}_gpu_after_optimizations" for target in ("sm_8.0", "sm_9.0a")]
    touch(
        tmp_path, before, *(f"{name}.hlo.pb" for name in after), f"{after[0]}.txt", f"{after[1]}-buffer-assignment.txt"
    )
    expected = [
        ("module_0001.jit_f", "sm_8.0", [f"{after[0]}.hlo.pb", f"{after[0]}.txt"], 0),
        ("module_0001.jit_f", "sm_9.0a", [f"{after[1]}.hlo.pb"], 1),
    ]
    for path in (tmp_path, tmp_path / before):
        modules = select_modules([path]).modules
        assert [
            (one.id, one.target, [file.name for file in one.optimized], len(one.buffers)) for one in modules
        ] == expected
        assert all(one.program == (tmp_path / before,) for one in modules)
    (module,) = find_modules(tmp_path / f"{after[1]}.hlo.pb").modules
    assert (module.target, len(module.program), len(module.buffers)) == ("sm_9.0a", 1, 1)


def test_a_name_omitted_for_its_length_is_found_in_the_other_files(tmp_path: Path) -> None:
    touch(tmp_path, "module_0001.jit_long.before_optimizations.txt", "module_0001.sm_9.0_gpu_after_optimizations.txt")
    module = only(tmp_path)
    assert (module.id, len(module.program)) == ("module_0001.jit_long", 1)


def test_a_file_includes_the_other_files_of_its_module(pick: Pick) -> None:
    folder = pick("losses", "before_optimizations.hlo.pb", "after_optimizations.txt", "-buffer-assignment.txt")
    whole = only(folder)
    for path in (*whole.optimized, *whole.program):
        (module,) = find_modules(path).modules
        assert (module.optimized, module.program, module.buffers) == (whole.optimized, whole.program, whole.buffers)


def test_of_two_forms_the_named_one_is_read(dumps: Path) -> None:
    text = only(dumps / "losses").optimized[1]
    (module,) = find_modules(text).modules
    assert module.optimized == (text,)
    assert module.program[0].name.endswith(".hlo.pb")


def test_other_file_names_are_found_by_their_ending_or_if_given(tmp_path: Path) -> None:
    touch(tmp_path / "a", "step.hlo.pb", "step.hlo.gz", "notes.txt")
    assert [module.id for module in find_modules(tmp_path).modules] == ["a/step.hlo.gz", "a/step.hlo.pb"]
    (module,) = find_modules(tmp_path / "a" / "notes.txt").modules
    assert module.id == "notes.txt"


def test_links_that_lead_out_are_not_followed(tmp_path: Path) -> None:
    name = "module_0001.jit_f.sm_9.0_gpu_after_optimizations.txt"
    touch(tmp_path / "outside", name)
    touch(tmp_path / "dump", f"1.{name}")
    os.symlink(tmp_path / "outside" / name, tmp_path / "dump" / name)
    os.symlink(tmp_path / "outside", tmp_path / "dump" / "folder")
    os.symlink(tmp_path / "dump", tmp_path / "dump" / "circle")
    os.symlink("nowhere", tmp_path / "dump" / f"3.{name}")
    os.symlink(f"1.{name}", tmp_path / "dump" / f"2.{name}")
    dump = find_modules(tmp_path / "dump")
    assert [module.id for module in dump.modules] == ["1.module_0001.jit_f", "2.module_0001.jit_f"]
    assert dump.links == 4


def test_a_path_without_modules_is_an_input_error_that_says_what_it_contains(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no file or directory"):
        select_modules([tmp_path / "missing"])
    with pytest.raises(InputError, match="no HLO module"):
        select_modules([tmp_path])
    touch(tmp_path, "module_0001.jit_f.config.pbtxt")  # the only file if no HLO form was requested
    with pytest.raises(InputError, match="as well"):
        select_modules([tmp_path])
    touch(tmp_path, "module_0001.jit_f.before_optimizations.txt")
    with pytest.raises(InputError, match="1 module before optimizations and none after"):
        select_modules([tmp_path])
    with pytest.raises(InputError, match="neither"):
        select_modules([Path("/dev/null")])


def test_a_pattern_selects_by_id_name_or_part(tmp_path: Path) -> None:
    for number, name in enumerate(("jit_step", "jit_eval")):
        touch(tmp_path / "host0", f"module_000{number}.{name}.sm_9.0_gpu_after_optimizations.txt")
    for pattern in ("*step*", "jit_step", "module_0000.*", "host0/module_0000.jit_step"):
        selection = select_modules([tmp_path], pattern)
        assert [module.id for module in selection.modules] == ["host0/module_0000.jit_step"], pattern
        assert selection.notes == (f"1 module left out, because `{pattern}` does not match",)
    assert select_modules([tmp_path], "jit_*").notes == ()
    with pytest.raises(InputError, match=r"no module matches `x`: there are `host0/module_0000.jit_step`, `host0"):
        select_modules([tmp_path], "x")


def test_equal_ids_under_two_paths_are_distinguished(tmp_path: Path) -> None:
    for host in ("a", "b"):
        touch(tmp_path / host, "module_0001.jit_f.sm_9.0_gpu_after_optimizations.txt")
    selection = select_modules([tmp_path / "a", tmp_path / "b", tmp_path / "a"])
    assert [module.id for module in selection.modules] == [
        f"{tmp_path}/{host}/module_0001.jit_f" for host in ("a", "b")
    ]


def test_a_directory_is_searched_within_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "module_0001.jit_f.sm_9.0_gpu_after_optimizations.txt"
    touch(tmp_path / "a" / "b", name)
    touch(tmp_path / "a", name)
    assert len(find_modules(tmp_path).modules) == 2
    monkeypatch.setattr(find, "MAXIMUM_FOLDER_DEPTH", 1)
    assert [module.id for module in find_modules(tmp_path).modules] == ["a/module_0001.jit_f"]
    assert any(note.startswith("1 folder more than") for note in select_modules([tmp_path]).notes)
    monkeypatch.setattr(find, "MAXIMUM_FOLDER_FILES", 0)
    with pytest.raises(InputError, match="holds more than 0 files"):
        find_modules(tmp_path)
