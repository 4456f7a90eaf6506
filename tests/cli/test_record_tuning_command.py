"""`ligerdiag record-tuning` writes the file that the GPU's autotuner filled, and says how to use it."""

from pathlib import Path

import pytest

from ligerdiag.api import RecordedTuning
from ligerdiag.errors import CompileError, InputError
from tests.cli.conftest import FakeApi, RunCommand
from tests.compile.tuned import BOTH, H100

WHOLE = RecordedTuning(
    content=BOTH.encode(),
    device="NVIDIA H100 80GB HBM3",
    devices={H100: 2},
    targets=("h100",),
    artifacts={"products": Path("/cache/1")},
)


def record(run_command: RunCommand, folder: Path, name: str = "h100.pbtxt") -> tuple[int, str, str, bytes]:
    output = folder / name
    outcome = run_command("record-tuning", "mine.py", "--output", str(output))
    return outcome.code, outcome.out, outcome.err, output.read_bytes() if output.exists() else b""


def test_the_file_is_written_whole(api: FakeApi, run_command: RunCommand, tmp_path: Path) -> None:
    api.recorded = WHOLE
    code, out, err, written = record(run_command, tmp_path)
    assert (code, err, written) == (0, "", BOTH.encode())
    assert out.splitlines() == [
        f"written: {tmp_path / 'h100.pbtxt'}, 2 choices of NVIDIA H100 80GB HBM3 in 1 case",
        "use it: ligerdiag check --autotune-results h100.pbtxt --target h100",
    ]
    (asked,) = api.tuned
    assert (asked.selectors, asked.output) == (("mine.py",), tmp_path / "h100.pbtxt")


def test_a_gpu_that_no_target_describes_needs_its_description(
    api: FakeApi, run_command: RunCommand, tmp_path: Path
) -> None:
    api.recorded = RecordedTuning(content=WHOLE.content, device="NVIDIA L4", devices={"CUDA: 8.9": 1}, artifacts={})
    _, out, _, _ = record(run_command, tmp_path)
    assert "--target mine.pbtxt, with the description of this GPU that `ligerdiag targets auto` prints" in out


@pytest.mark.parametrize(
    ("error", "code"), [(CompileError("case `a` does not compile: x"), 3), (InputError("case `a` needs 2 GPUs"), 2)]
)
def test_a_case_that_fails_is_named_and_the_others_are_written(
    error: CompileError | InputError, code: int, api: FakeApi, run_command: RunCommand, tmp_path: Path
) -> None:
    api.recorded = RecordedTuning(content=WHOLE.content, device="H100", devices={H100: 2}, errors={"a": error})
    found, _, err, written = record(run_command, tmp_path)
    assert (found, written) == (code, WHOLE.content)
    assert err == f"error: case `a`: {error}\n"


def test_an_input_error_of_one_case_counts_before_a_compile_error_of_another(
    api: FakeApi, run_command: RunCommand, tmp_path: Path
) -> None:
    errors = {"a": CompileError("x"), "b": InputError("y")}
    api.recorded = RecordedTuning(content=WHOLE.content, device="H100", devices={H100: 2}, errors=errors)
    assert record(run_command, tmp_path)[0] == 2


def test_nothing_is_written_if_no_case_was_tuned(api: FakeApi, run_command: RunCommand, tmp_path: Path) -> None:
    api.recorded = RecordedTuning(content=b"", errors={"a": CompileError("x")})
    assert record(run_command, tmp_path) == (
        3,
        "",
        "error: case `a`: x\nnothing written: no choice was recorded\n",
        b"",
    )
    api.error = InputError("`ligerdiag record-tuning` needs an NVIDIA GPU, and this machine has none: x")
    code, _, err, written = record(run_command, tmp_path)
    assert (code, written) == (2, b"")
    assert "needs an NVIDIA GPU" in err


def test_a_folder_that_is_missing_is_found_before_the_cases_are_tuned(
    api: FakeApi, run_command: RunCommand, tmp_path: Path
) -> None:
    code, _, err, _ = record(run_command, tmp_path, "gone/h100.pbtxt")
    assert (code, api.tuned) == (2, [])
    assert "gone" in err
