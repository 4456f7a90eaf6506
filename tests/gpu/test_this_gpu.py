"""The target `auto` is the GPU of this machine, as XLA describes it."""

from pathlib import Path

from ligerdiag.api import CheckOptions, check
from ligerdiag.model.report import Status
from ligerdiag.toolchains.gpu_targets import AUTO, Platform, load_target
from ligerdiag.toolchains.text_format import find_number, split_fields

ROOT = Path(__file__).parents[2]


def test_xla_describes_the_gpu_of_this_machine() -> None:
    target = load_target(AUTO)
    lines = split_fields(target.description)
    assert (target.name, target.platform, target.vendor) == (AUTO, Platform.CUDA, "NVIDIA")
    assert target.model.startswith(("NVIDIA", "Tesla"))
    assert target.compute_capability >= 60
    assert target.memory > 1 << 30
    assert target.cores > 1
    assert find_number(lines, "gpu_device_info.threads_per_warp") == 32


def test_a_case_is_judged_for_the_gpu_of_this_machine_with_all_fields(shared_cache: Path) -> None:
    row = f"{ROOT / 'cases'}::seed_flce[True-float32-True-1-4-32-16]"
    report = check(CheckOptions(selectors=(row,), targets=(AUTO,), cache_directory=shared_cache, replay=False))
    (case,) = report.cases
    assert (case.target, case.status) == (AUTO, Status.EXPECTED)
    assert report.notes == ()
