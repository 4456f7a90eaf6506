"""The choices that `record-tuning` keeps let a compile without a GPU make the schedule that the GPU's own compile made."""

import re
from pathlib import Path

import pytest

from ligerdiag.api import CheckOptions, RecordedTuning, TuningOptions, check, record_tuning
from ligerdiag.artifacts.artifact import OPTIMIZED
from ligerdiag.hlo.dataflow import list_running
from ligerdiag.hlo.module import HloModule
from ligerdiag.hlo.parse import load_hlo
from ligerdiag.hlo.shape import render_shape
from ligerdiag.model.tuning import TunedKind
from ligerdiag.toolchains.gpu_targets import AUTO, load_target
from ligerdiag.toolchains.tuning_file import compute_device_key

ROOT = Path(__file__).parents[2]
SELECTORS = (
    str(ROOT / "tests" / "compile" / "programs" / "products.py"),
    f"{ROOT / 'cases'}::seed_flce[False-float32-True-1-4-32-16]",
    f"{ROOT / 'cases'}::seed_flce[False-bfloat16-True-1-4-32-16]",
)
SUFFIXES = (".pbtxt", ".pb")
NUMBER = re.compile(r"(\.\d+)+$")


@pytest.fixture(scope="module", params=SUFFIXES)
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[RecordedTuning, Path]:
    folder = tmp_path_factory.mktemp("tuning")
    output = folder / f"tuned{request.param}"
    found = record_tuning(TuningOptions(selectors=SELECTORS, output=output, cache_directory=folder / "cache"))
    output.write_bytes(found.content)
    return found, output


def list_schedule(module: HloModule) -> list[tuple[str, str, str, str, bytes]]:
    """Returns each instruction in the order of the schedule: its computation, its name, opcode and shape, and the choice
    in its configuration. Names are without their numbers, which XLA gives in any order. Parameters are left out: they run
    nothing, and XLA lists them in any order.
    """
    return [
        (
            NUMBER.sub("", computation.name),
            NUMBER.sub("", one.name),
            one.opcode,
            render_shape(one.shape),
            one.proto.backend_config if one.opcode != "while" else b"",
        )
        for computation in list_running(module)
        for one in computation.sequence
        if one.opcode != "parameter"
    ]


def test_each_case_is_recorded_for_the_gpu_of_this_machine(recorded: tuple[RecordedTuning, Path]) -> None:
    found, _ = recorded
    assert found.errors == {}
    assert len(found.artifacts) == len(SELECTORS)
    assert list(found.devices) == [compute_device_key(load_target(AUTO))]
    assert sum(found.devices.values()) >= 2


def test_a_compile_without_a_gpu_makes_the_schedule_of_the_gpu(recorded: tuple[RecordedTuning, Path]) -> None:
    found, output = recorded
    options = CheckOptions(
        selectors=SELECTORS,
        targets=(AUTO,),
        autotune_results=output,
        cache_directory=output.parent / "described",
        replay=False,
    )
    report = check(options)
    assert report.notes == ()
    for case in report.cases:
        assert case.tuning is not None, case.error
        assert case.tuning.counted
        assert [one.name for one in case.tuning.open if one.kind is not TunedKind.FUSION] == []
        assert case.tuning.recorded
        described, _ = load_hlo(Path(case.artifact) / OPTIMIZED)
        tuned, _ = load_hlo(found.artifacts[case.id] / OPTIMIZED)
        assert list_schedule(described) == list_schedule(tuned), case.id
