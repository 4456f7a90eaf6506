"""`check` compiles with the choices of XLA's autotuner, says so, and refuses a file of no use before any compile."""

import json
from pathlib import Path

import pytest

from ligerdiag.api import CheckOptions, TuningOptions, check, record_tuning
from ligerdiag.artifacts.artifact import OPTIMIZED
from ligerdiag.errors import InputError
from ligerdiag.harmless_logs import has_nvidia_device
from ligerdiag.hlo.parse import load_hlo
from ligerdiag.model.report import CheckReport
from ligerdiag.report.json import render_json
from ligerdiag.report.terminal.full_report import render_terminal
from tests.compile.tuned import BOTH, FIRST, H100, TILES, render_entry, render_results

PRODUCTS = Path(__file__).parents[1] / "compile" / "programs" / "products.py"


def run(folder: Path, text: str | None, target: str = "h100") -> CheckReport:
    file = None
    if text is not None:
        file = folder / "h100.pbtxt"
        file.write_text(text, encoding="utf-8")
    options = CheckOptions(
        selectors=(str(PRODUCTS),),
        targets=(target,),
        autotune_results=file,
        cache_directory=folder / "cache",
        jobs=1,
        replay=text == BOTH,
    )
    return check(options)


def test_the_report_names_the_file_and_the_instructions(tmp_path: Path) -> None:
    report = run(tmp_path, BOTH.replace("9.19.0", "9.5.1"))
    (case,) = report.cases
    assert case.tuning is not None
    assert (case.tuning.file, case.tuning.entries, len(case.tuning.recorded)) == ("h100.pbtxt", 2, 2)
    assert "\ntuned: by `h100.pbtxt` (2 choices, sha256 " in render_terminal(report)
    assert report.notes == (
        "`h100.pbtxt` was recorded with cuDNN 9.5.1, and target `h100` has cuDNN 9.19.0: its entries are used all the same",
    )
    (told,) = json.loads(render_json(report))["cases"]
    assert sorted(one["name"] for one in told["tuning"]["recorded"])[0].startswith("gemm_fusion_dot")


def test_a_tuned_schedule_is_replayed_like_any_other(tmp_path: Path) -> None:
    (case,) = run(tmp_path, BOTH).cases
    module, _ = load_hlo(Path(case.artifact) / OPTIMIZED)
    assert [call.proto.custom_call_target for _, call in module.iterate_custom_calls()] == ["__cublas$lt$matmul"]
    assert case.replay is not None
    assert [numbers.attribution.value for numbers in case.replay.outputs.values()] == ["fresh"]


def test_without_a_file_the_report_lists_what_a_gpu_may_choose(tmp_path: Path) -> None:
    report = run(tmp_path, None)
    (case,) = report.cases
    assert case.tuning is not None
    assert (case.tuning.file, len(case.tuning.open)) == ("", 2)
    assert "tuned" not in render_terminal(report)
    assert "\nnot tuned: a tuned machine may implement 2 instructions otherwise: " in render_terminal(
        report, verbose=True
    )


@pytest.mark.parametrize(
    ("text", "target", "said"),
    [
        ("garbage", "h100", "expected the results of XLA's autotuner"),
        (render_results(render_entry(FIRST, TILES), version=4), "h100", "of version 4, and XLA reads version 3"),
        (BOTH, "a100", f"no entry for target `a100`, .* its entries are for `{H100}`"),
    ],
)
def test_a_file_of_no_use_ends_the_run_before_any_compile(text: str, target: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        run(tmp_path, text, target)
    assert list(tmp_path.rglob("*.hlo.pb")) == []


@pytest.mark.skipif(has_nvidia_device(), reason="a machine with a GPU records")
def test_a_machine_without_a_gpu_records_nothing(tmp_path: Path) -> None:
    output = tmp_path / "h100.pbtxt"
    with pytest.raises(InputError, match="`ligerdiag record-tuning` needs an NVIDIA GPU, and this machine has none"):
        record_tuning(TuningOptions(selectors=(str(PRODUCTS),), output=output, cache_directory=tmp_path / "cache"))
    assert list(tmp_path.iterdir()) == []
