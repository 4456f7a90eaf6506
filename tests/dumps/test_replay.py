"""`inspect` replays a dump: it gives the numbers of `check`, on drawn arguments or a run's own; a hostile dump ends
cleanly.
"""

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from ligerdiag import api
from ligerdiag.artifacts.artifact import load_artifact
from ligerdiag.cli.exit_codes import ExitCode
from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.module import HloModule
from ligerdiag.hlo.parse import load_hlo
from ligerdiag.hlo.xla_pb2 import (
    HloInstructionProto,
    HloProto,
    HloSnapshot,
    HloUnoptimizedSnapshot,
    LiteralProto,
    ShapeProto,
)
from ligerdiag.inspection.module_inspection import InspectionRequest, ModuleInspector
from ligerdiag.model.findings import Attribution, Replay, ReplayState, Verdict
from ligerdiag.model.report import CaseReport, CheckReport, Status
from ligerdiag.replay import dump_replay as dump_module
from ligerdiag.replay.dump_replay import DumpPlan, draw_parameters, load_snapshot
from ligerdiag.replay.ops.scope import Array
from ligerdiag.replay.replay_worker import Bounds
from ligerdiag.report.agreement import compute_replay_agreements
from ligerdiag.report.json import render_json
from ligerdiag.report.terminal.full_report import render_terminal
from tests.case_levels import runs_daily
from tests.dumps.conftest import ROOT, Inspect, Pick, only
from tools.json_schema import load_schema

SAME = (
    "accumulated_sum[argument-hidden]",
    "autotuned[hidden]",
    "barrier_copy[kernel-hidden]",
    "bf16_flce[False-True-1-4-32-16]",
    "flce_modes[hidden-bfloat16-False-1-4-32-16]",
    "in_flight[stacked-hidden]",
    "pallas_cross_entropy[bfloat16-hidden]",
    "same_buffer_twice[hidden]",
    "seed_flce[False-float32-True-1-4-32-16]",
    "seed_flce[True-bfloat16-True-1-4-32-16]",
    "two_losses[other-hidden]",
    "undonated_parameter[kept-hidden]",
)
"""Cases whose dump shows everything that their author intended."""
DAILY = tuple(name for name in SAME if runs_daily(name))
"""Those that other tests compile by day too."""
UNTOLD = ("accumulated_sum[returned-hidden]", "constant[hidden]")
"""Cases whose dump does not."""
SHARDED = "sharded_flce[batch-hidden]"
SNAPSHOT = "module_0001.jit_compute.snapshot.-17.pb"
UNOPTIMIZED = "module_0001.jit_compute.execution_0000.hlo_unoptimized_snapshot.pb"


@pytest.fixture(scope="session")
def inspect(inspect: Inspect) -> Inspect:
    """Inspects, with a replay."""
    return lambda *paths, **keywords: inspect(*paths, **{"replay": True, **keywords})


@pytest.fixture(scope="module")
def checked(shared_cache: Path) -> dict[str, CaseReport]:
    return check_cases((*DAILY, *UNTOLD, SHARDED), shared_cache)


def check_cases(names: tuple[str, ...], shared_cache: Path) -> dict[str, CaseReport]:
    selectors = tuple(f"{ROOT / 'cases'}/{case.partition('[')[0]}.py::{case}" for case in names)
    report = api.check(api.CheckOptions(selectors=selectors, cache_directory=shared_cache))
    return {case.id: case for case in report.cases}


def dump_case(case: CaseReport, folder: Path) -> Path:
    """Writes the modules of a case under XLA's names."""
    artifact = load_artifact(Path(case.artifact))
    folder.mkdir(parents=True)
    shutil.copy(artifact.unoptimized, folder / "module_0001.jit_compute.before_optimizations.hlo.pb")
    shutil.copy(artifact.optimized, folder / "module_0001.jit_compute.sm_9.0a_gpu_after_optimizations.hlo.pb")
    return folder


def summarise(case: CaseReport) -> object:
    assert case.replay is not None, case.error
    said = compute_replay_agreements(case.outputs, case.replay, case.findings)
    numbers = [one.attribution for one in case.replay.outputs.values()]
    return list(case.outputs.values()), case.replay.state, numbers, list(said.values()), case.disagreements


@pytest.mark.parametrize("names", [DAILY, pytest.param(SAME, marks=pytest.mark.nightly)], ids=["day", "night"])
def test_a_dump_gives_the_numbers_of_check(
    names: tuple[str, ...], shared_cache: Path, inspect: Inspect, tmp_path: Path
) -> None:
    checked = check_cases(names, shared_cache)
    for number, name in enumerate(names):
        dump_case(checked[name], tmp_path / f"{number:02d}")
    report = inspect(tmp_path)
    assert len(report.cases) == len(names)
    for name, case in zip(names, report.cases, strict=True):
        assert summarise(case) == summarise(checked[name]), name


def test_an_artifact_of_several_devices_is_replayed_too(
    checked: dict[str, CaseReport], inspect: Inspect, tmp_path: Path
) -> None:
    (whole,) = inspect(Path(checked[SHARDED].artifact)).cases
    assert whole.replay is not None
    assert whole.replay.state is ReplayState.DONE
    assert whole.outputs == checked[SHARDED].outputs
    assert not whole.disagreements
    (bare,) = inspect(dump_case(checked[SHARDED], tmp_path / "dump")).cases
    assert bare.replay is not None
    assert bare.replay.state is ReplayState.NOT_COVERED
    assert "several devices" in bare.replay.reason


def test_the_author_s_intent_is_not_decided_by_numbers(
    checked: dict[str, CaseReport], inspect: Inspect, tmp_path: Path
) -> None:
    """The schedule equals the folded program in its order, which would count as fresh."""
    for name in UNTOLD:
        (case,) = inspect(dump_case(checked[name], tmp_path / name.partition("[")[0])).cases
        assert case.replay is not None
        unknown = {output for output, verdict in case.outputs.items() if verdict is Verdict.UNKNOWN}
        assert unknown, name
        for output in unknown:
            assert case.replay.outputs[output].attribution is Attribution.UNDECIDED, name
        assert any(case.replay.outputs[output].error == 0.0 for output in unknown), name


def test_a_report_shows_the_numbers_like_check(dumps: Path, inspect: Inspect) -> None:
    report = inspect(dumps / "losses")
    text = render_terminal(report, width=100, colour=False, verbose=True)
    assert re.search(r"output 3  STALE  replay stale \d", text)
    assert "replayed: 1 of 1: 1 agree" in text
    assert "equal to the stale prediction" in text
    document = json.loads(render_json(report))
    jsonschema.validate(document, load_schema())
    assert document["cases"][0]["replay"]["state"] == "done"


def test_modules_without_an_overwriting_kernel_are_not_replayed(dumps: Path, inspect: Inspect) -> None:
    assert [case.replay for case in inspect(dumps / "fresh").cases] == [None]
    assert [case.replay for case in inspect(dumps / "losses", replay=False).cases] == [None]


def test_with_only_the_optimized_module_nothing_is_replayed(pick: Pick, inspect: Inspect) -> None:
    (case,) = inspect(pick("losses", "after_optimizations.hlo.pb")).cases
    assert case.replay is not None
    assert case.replay.state is ReplayState.NOT_DONE
    assert "no module from before the optimizations" in case.replay.reason
    (case,) = inspect(pick("losses", "optimizations.txt", into="texts")).cases
    assert case.replay is not None
    assert case.replay.state is ReplayState.NOT_DONE
    assert "no consistent buffer assignment" in case.replay.reason


def test_bounds_and_seed_are_respected(dumps: Path, inspect: Inspect) -> None:
    (case,) = inspect(dumps / "flce", bounds=Bounds(memory=1)).cases
    assert case.replay is not None
    assert case.replay.state is ReplayState.TOO_LARGE
    assert "--full" in case.replay.reason
    errors: list[float] = []
    for seed in (0, 0, 1):
        (case,) = inspect(dumps / "flce", seed=seed).cases
        assert case.replay is not None
        errors.append(case.replay.outputs["output 0"].error)
    assert errors[0] == errors[1] != errors[2]


def make_inspector(folder: Path, **words: Any) -> ModuleInspector:
    def translate(text: bytes, name: str) -> bytes:
        raise AssertionError(name)

    request = InspectionRequest(replay=True, **words)
    return ModuleInspector(request=request, translate=translate, effects_cache=folder / "effects")


def draw(folder: Path, seed: int = 5) -> tuple[HloModule, tuple[Array, ...]]:
    program, _ = load_hlo(only(folder).program[0])
    return program, draw_parameters(program, seed)


def make_literal(array: Array, shape: ShapeProto) -> LiteralProto:
    literal = LiteralProto(shape=shape)
    name = {"float32": "f32s", "int32": "s32s"}[array.dtype.name]
    getattr(literal, name).extend(array.ravel().tolist())
    return literal


def write_snapshot(folder: Path, name: str = SNAPSHOT, *, arrays: Sequence[Array] | None = None) -> Path:
    """Writes a snapshot of `arrays`, by default of other draws than a replay's."""
    program, drawn = draw(folder)
    snapshot = HloSnapshot()
    for array, parameter in zip(arrays or drawn, program.entry.parameters, strict=True):
        snapshot.arguments.append(make_literal(array, parameter.shape))
    path = folder / name
    path.write_bytes(snapshot.SerializeToString())
    return path


def replay_of(report: CheckReport) -> Replay:
    (case,) = report.cases
    assert not case.error, case.error
    assert case.outputs["output 0"] is Verdict.STALE
    assert case.replay is not None
    return case.replay


def test_the_arguments_of_a_run_are_used(pick: Pick, inspect: Inspect) -> None:
    folder = pick("losses", "optimizations.hlo.pb")
    drawn, other = (replay_of(inspect(folder, seed=seed)).outputs["output 0"].error for seed in (0, 5))
    assert drawn != other
    write_snapshot(folder)
    report = inspect(folder)
    assert replay_of(report).outputs["output 0"].error == other
    assert any(SNAPSHOT in note for note in report.notes)


def test_the_first_run_counts_and_a_run_of_an_unknown_module_does_not(pick: Pick, inspect: Inspect) -> None:
    folder = pick("losses", "optimizations.hlo.pb")
    for name in ("module_0001.jit_other.snapshot.1.pb", "module_0002.jit_compute.snapshot.1.pb"):
        write_snapshot(folder, name).write_bytes(b"of another module")
    assert not only(folder).arguments
    for number in (1, 0):
        write_snapshot(folder, f"12345.module_0001.jit_compute.execution_000{number}.hlo_snapshot.pb")
    assert [path.name[-21:-16] for path in only(folder).arguments] == ["_0000", "_0001"]


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        ("shape", r"argument 0 is f32\[\d+,\d+\], but the program takes f32"),
        ("dtype", r"argument 0 is u32"),
        ("count", "but the program takes"),
        ("short", r"expected \d+ elements in a constant but got"),
        ("layout", "argument 0 has a layout that does not fit its shape"),
        ("bytes", "do not have a format that XLA writes"),
        ("gzip", "unpacks to more|is a gzip file|more than"),
    ],
)
def test_arguments_that_do_not_fit_are_a_one_sentence_error(
    damage: str, why: str, pick: Pick, inspect: Inspect
) -> None:
    folder = pick("losses", "optimizations.hlo.pb")
    path = write_snapshot(folder)
    snapshot = HloSnapshot.FromString(path.read_bytes())
    shape = snapshot.arguments[0].shape
    match damage:
        case "shape":
            shape.dimensions[0] += 1
        case "dtype":
            shape.element_type = 8
        case "count":
            del snapshot.arguments[-1]
        case "short":
            del snapshot.arguments[0].f32s[-1]
        case "layout":
            shape.layout.minor_to_major[:] = [7, 7]
        case _:
            pass
    path.write_bytes(snapshot.SerializeToString())
    if damage == "bytes":
        path.write_bytes(b"\xff" * 100)
    if damage == "gzip":
        path.write_bytes(gzip.compress(bytes(64 << 20)))
    replay = replay_of(inspect(folder))
    assert replay.state is ReplayState.FAILED
    assert re.search(why, replay.reason), replay.reason
    assert SNAPSHOT in replay.reason
    assert "\n" not in replay.reason


def test_arguments_that_are_all_nan_decide_nothing(pick: Pick, inspect: Inspect) -> None:
    folder = pick("losses", "optimizations.hlo.pb")
    _, drawn = draw(folder)
    write_snapshot(folder, arrays=[np.full_like(one, np.nan) if one.dtype.kind == "f" else one for one in drawn])
    replay = replay_of(inspect(folder))
    assert replay.state is ReplayState.DONE
    assert {one.attribution for one in replay.outputs.values()} == {Attribution.UNDECIDED}
    assert replay.reason


RUN = """
import jax, jax.numpy as jnp, numpy as np
@jax.jit
def step(x, mask, z, bytes_, none, half, steps):
    return (jnp.where(mask, x, 0).T @ x * steps).sum(), z * 2, bytes_.T, none, half + 1
step(np.arange(22, dtype=np.float32).reshape(11, 2), (np.arange(22) % 3 == 0).reshape(11, 2),
     np.array([1 + 2j], np.complex64), np.arange(6, dtype=np.uint8).reshape(2, 3), np.zeros((0, 3), np.float32),
     jnp.arange(5, dtype=jnp.bfloat16), np.int32(7))
"""


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        ("--xla_dump_hlo_snapshots", "do not have a format that XLA writes"),
        ("--xla_dump_hlo_unoptimized_snapshots", "do not have a format that XLA writes"),
        ("--xla_dump_hlo_unoptimized_snapshots --xla_dump_hlo_as_proto", "is cut off"),
    ],
)
def test_snapshots_written_by_xla_itself_are_read(flags: str, why: str, tmp_path: Path) -> None:
    run_with_flags(tmp_path / "modules", "--xla_dump_hlo_as_proto")
    run_with_flags(tmp_path / "run", flags)
    (program,) = list((tmp_path / "modules").glob("*jit_step*before_optimizations.hlo.pb"))
    (path,) = list((tmp_path / "run").glob("*jit_step*snapshot*.pb"))
    x, mask, z, octets, none, half, steps = load_snapshot(path, load_hlo(program)[0])
    assert np.array_equal(x, np.arange(22, dtype=np.float32).reshape(11, 2))
    assert np.array_equal(mask, (np.arange(22) % 3 == 0).reshape(11, 2))
    assert z.tolist() == [1 + 2j]
    assert octets.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert none.shape == (0, 3)
    assert half.astype(np.float32).tolist() == [0, 1, 2, 3, 4]
    assert steps == 7
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ArtifactError, match=why):
        load_snapshot(path, load_hlo(program)[0])


def run_with_flags(folder: Path, flags: str) -> None:
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": f"{flags} --xla_dump_to={folder}"}
    subprocess.run([sys.executable, "-c", RUN], env=environment, check=True, capture_output=True, timeout=600)


def test_literals_in_an_older_unoptimized_snapshot_are_read(pick: Pick) -> None:
    folder = pick("losses", "optimizations.hlo.pb")
    program, drawn = draw(folder)
    snapshot = HloUnoptimizedSnapshot()
    inputs = snapshot.partitions.add()
    for array, parameter in zip(drawn, program.entry.parameters, strict=True):
        inputs.arguments.append(make_literal(array, parameter.shape))
    path = folder / UNOPTIMIZED
    path.write_bytes(snapshot.SerializeToString())
    assert all(np.array_equal(a, b) for a, b in zip(load_snapshot(path, program), drawn, strict=True))
    snapshot.partitions.add()
    path.write_bytes(snapshot.SerializeToString())
    with pytest.raises(ArtifactError, match="for 2 devices"):
        load_snapshot(path, program)


def change_loop(folder: Path, direction: str, limit: int) -> None:
    """Changes in the program only the limit and direction of its loop's comparison."""
    (path,) = only(folder).program
    proto = HloProto.FromString(path.read_bytes())
    for computation in proto.hlo_module.computations:
        compares = [one for one in computation.instructions if one.comparison_direction == "LT"]
        for one in compares:
            one.comparison_direction = direction
            for constant in computation.instructions:
                if constant.id == one.operand_ids[1]:
                    constant.literal.s32s[:] = [limit]
        if compares:
            path.write_bytes(proto.SerializeToString())
            return
    raise AssertionError(path)


def test_an_endless_loop_costs_only_the_numbers(pick: Pick, inspect: Inspect) -> None:
    folder = pick("loop", "optimizations.hlo.pb")
    change_loop(folder, "NE", -1)
    (case,) = inspect(folder, timeout=6.0).cases
    assert case.outputs
    assert case.replay is not None
    assert case.replay.state is ReplayState.FAILED
    assert "takes more than 6 s" in case.replay.reason


def test_modules_of_two_programs_disagree(pick: Pick, run_cli: Callable[..., Any]) -> None:
    folder = pick("loop", "optimizations.hlo.pb")
    change_loop(folder, "GE", 1)
    done = run_cli("inspect", folder, "--format", "json")
    (case,) = json.loads(done.out)["cases"]
    assert case["status"] == Status.DISAGREEMENT.value
    assert done.code == ExitCode.NOT_ANALYSED
    without = run_cli("inspect", folder, "--format", "json", "--no-replay")
    assert without.code != ExitCode.NOT_ANALYSED


def test_memory_that_no_estimate_covers_is_bounded(
    dumps: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DumpPlan, "memory", property(lambda _: 64 << 20))
    monkeypatch.setattr(dump_module, "draw_parameters", lambda *_: bytearray(256 << 20))
    inspector, files = make_inspector(tmp_path), only(dumps / "losses")
    outcome = inspector.inspect_module(files)
    done = inspector.replay(files, outcome.replay_seconds)
    assert done.is_over_budget
    assert done.replay is not None
    assert done.replay.state is ReplayState.FAILED
    assert "64 MiB" in done.replay.reason


def change_instructions(folder: Path, change: Callable[[HloInstructionProto], None]) -> None:
    """Changes the instructions of both modules."""
    files = only(folder)
    for path in (*files.program, *files.optimized):
        proto = HloProto.FromString(path.read_bytes())
        for computation in proto.hlo_module.computations:
            for instruction in computation.instructions:
                change(instruction)
        path.write_bytes(proto.SerializeToString())


def test_a_payload_that_unpacks_without_end_is_not_replayed(pick: Pick, inspect: Inspect) -> None:
    bomb = zlib.compress(bytes(256 << 20))

    def change(instruction: HloInstructionProto) -> None:
        if instruction.custom_call_target == "triton_kernel_call":
            instruction.backend_config = bomb

    folder = pick("losses", "optimizations.hlo.pb")
    change_instructions(folder, change)
    (case,) = inspect(folder).cases
    assert case.replay is not None
    assert case.replay.state is ReplayState.NOT_COVERED
    assert "payload" in case.replay.reason


def test_a_shape_without_end_is_not_replayed(pick: Pick, inspect: Inspect) -> None:
    def change(instruction: HloInstructionProto) -> None:
        if instruction.opcode == "parameter" and instruction.shape.dimensions:
            instruction.shape.dimensions[0] = 1 << 40

    folder = pick("losses", "optimizations.hlo.pb")
    change_instructions(folder, change)
    (case,) = inspect(folder).cases
    assert case.replay is not None
    assert case.replay.state in (ReplayState.NOT_DONE, ReplayState.NOT_COVERED, ReplayState.TOO_LARGE)
