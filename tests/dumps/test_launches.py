"""Launch files beside a dumped module are found under XLA's names."""

from pathlib import Path

import pytest

from ligerdiag.dumps.load import load_launches
from ligerdiag.hlo.thunks import CommandOrder

MODULE = "module_0003.jit_step.sm_9.0a_gpu_after_optimizations.hlo.pb"
THUNKS = "001: kCopy [source | sink] kCopy\n"
CAPTURED = f"000: kCommandBuffer [source | sink] \n    {THUNKS}"
CONCURRENT = "xla_gpu_command_buffer_scheduling_mode: CONCURRENT\n"


def write(folder: Path, **texts: str) -> Path:
    """Writes the files of `module_0003.jit_step`, given by their endings."""
    for ending, text in texts.items():
        name = ending if ending == "debug_options" else f"{ending}.txt"
        (folder / f"module_0003.jit_step.{name}").write_text(text, encoding="utf-8")
    return folder / MODULE


def test_the_sequence_with_command_buffers_comes_first(tmp_path: Path) -> None:
    found = load_launches(write(tmp_path, thunk_sequence=THUNKS, thunk_sequence_after_thunk_passes=CAPTURED))
    assert found.thunks is not None
    assert [thunk.kind for thunk in found.thunks.walk()] == ["kCommandBuffer", "kCopy"]


@pytest.mark.parametrize(
    ("text", "order"), [(CONCURRENT, CommandOrder.DECLARED), ("xla_dump_hlo_as_text: true\n", CommandOrder.SCHEDULE)]
)
def test_the_flags_give_the_order_in_command_buffers(text: str, order: CommandOrder, tmp_path: Path) -> None:
    assert load_launches(write(tmp_path, debug_options=text)).command_order is order


def test_missing_files_leave_everything_unknown(tmp_path: Path) -> None:
    found = load_launches(tmp_path / MODULE)
    assert (found.thunks, found.command_order, found.notes) == (None, None, ())


def test_the_files_of_another_module_are_not_used(tmp_path: Path) -> None:
    write(tmp_path, thunk_sequence=THUNKS, debug_options=CONCURRENT)
    found = load_launches(tmp_path / MODULE.replace("0003", "0004"))
    assert (found.thunks, found.command_order) == (None, None)


def test_a_module_with_a_time_stamp_has_files_with_and_without_one(tmp_path: Path) -> None:
    write(tmp_path, thunk_sequence=THUNKS)
    (tmp_path / "17.module_0003.jit_step.debug_options").write_text(CONCURRENT, encoding="utf-8")
    found = load_launches(tmp_path / f"17.{MODULE}")
    assert found.thunks is not None
    assert found.command_order is CommandOrder.DECLARED


def test_command_buffers_outrank_a_time_stamp(tmp_path: Path) -> None:
    write(tmp_path, thunk_sequence_after_thunk_passes=CAPTURED)
    (tmp_path / "17.module_0003.jit_step.thunk_sequence.txt").write_text(THUNKS, encoding="utf-8")
    found = load_launches(tmp_path / f"17.{MODULE}")
    assert found.thunks is not None
    assert [thunk.kind for thunk in found.thunks.walk()] == ["kCommandBuffer", "kCopy"]


def test_an_empty_sequence_counts_as_missing_without_a_note(tmp_path: Path) -> None:
    found = load_launches(write(tmp_path, thunk_sequence="\n"))
    assert (found.thunks, found.notes) == (None, ())


def test_an_unreadable_text_is_only_noted(tmp_path: Path) -> None:
    (note,) = load_launches(write(tmp_path, thunk_sequence="no thunks\n")).notes
    assert note.startswith("the thunk sequence could not be read, so its command buffers are unknown: line 1")
    (tmp_path / "module_0003.jit_step.thunk_sequence.txt").write_bytes(b"\xff\xfe")
    (note,) = load_launches(tmp_path / MODULE).notes
    assert "is not UTF-8 text" in note


def test_links_are_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text(THUNKS, encoding="utf-8")
    (tmp_path / "module_0003.jit_step.thunk_sequence.txt").symlink_to(elsewhere)
    assert load_launches(tmp_path / MODULE).thunks is None
