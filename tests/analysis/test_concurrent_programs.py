"""Readers that run beside a kernel: on XLA's own streams, and in command buffers that keep only the declared order."""

from dataclasses import replace
from pathlib import Path

import pytest

from ligerdiag.artifacts.cache import Cache
from ligerdiag.compile.compile_service import compile_cases, discover_cases
from ligerdiag.hlo.thunks import ASYNC_START, COMMAND_BUFFER, parse_thunks
from ligerdiag.inspection.compilation import inspect_artifact
from ligerdiag.model.jobs import Variation
from ligerdiag.model.report import Inspection
from ligerdiag.toolchains.gpu_targets import load_target
from ligerdiag.workers.pool import Pool
from tests.analysis.compiled import PROGRAMS, Compiler, Program

type Programs = dict[str, Program]


@pytest.fixture(scope="module")
def programs(compiler: Compiler) -> Programs:
    return compiler.compile("concurrent.py")


@pytest.fixture(scope="module")
def concurrent(shared_cache: Path) -> dict[str, Inspection]:
    """Compiles the same programs with command buffers that keep only the declared order."""
    flags = {"xla_gpu_command_buffer_scheduling_mode": "CONCURRENT", "xla_gpu_graph_min_graph_size": 1}
    with Pool(cache=Cache(shared_cache), jobs=2) as pool:
        cases = discover_cases(["concurrent.py"], pool=pool, directory=PROGRAMS)
        results = list(compile_cases(cases, [load_target("h100")], pool=pool, variation=Variation(flags=flags)))
    found: dict[str, Inspection] = {}
    for result in results:
        assert result.artifact is not None, result.error
        found[result.case.id] = inspect_artifact(result.artifact, effects_cache=shared_cache / "effects")
    return found


def races_of(inspection: Inspection) -> list[tuple[str, ...]]:
    return [finding.outputs for finding in inspection.findings if finding.rule == "LD005"]


def test_the_copy_into_the_stack_of_a_scan_runs_on_its_own_stream(programs: Programs) -> None:
    program = programs["stacked"]
    thunks = parse_thunks(program.artifact.thunks.read_text(encoding="utf-8"))
    assert {thunk.stream.split("[")[0] for thunk in thunks.walk() if thunk.kind == ASYNC_START} == {
        "computation_stream"
    }
    assert races_of(program.inspection) == [("kept",)]
    assert program.verdicts == {"total": "fresh", "kept": "stale"}


def test_by_default_commands_keep_the_order_of_the_schedule(programs: Programs) -> None:
    program = programs["one_command_buffer"]
    (buffer,) = parse_thunks(program.artifact.thunks.read_text(encoding="utf-8")).thunks
    assert buffer.kind == COMMAND_BUFFER
    assert any("double_in_pallas" in thunk.text for _, sequence in buffer.nested for thunk in sequence.walk())
    assert races_of(program.inspection) == []
    assert program.verdicts == {"sums": "fresh", "seen": "latent", "columns": "latent", "other": "fresh"}


def test_a_concurrent_command_buffer_does_not_order_a_hidden_write_and_its_reader(
    concurrent: dict[str, Inspection],
) -> None:
    inspection = concurrent["one_command_buffer"]
    assert sorted(races_of(inspection)) == [("columns",), ("seen",)]
    assert {name: verdict.value for name, verdict in inspection.outputs.items()} == {
        "sums": "fresh",
        "seen": "unknown",
        "columns": "unknown",
        "other": "fresh",
    }
    assert inspection.coverage.not_covered == ()


def test_kernels_of_the_older_jax_triton_stay_out_of_command_buffers(
    concurrent: dict[str, Inspection],
) -> None:
    assert races_of(concurrent["stacked"]) == [("kept",)]


def test_a_thunk_sequence_that_cannot_be_read_is_noted(programs: Programs, tmp_path: Path) -> None:
    program = programs["stacked"]
    thunks = tmp_path / "thunks.txt"
    thunks.write_text("a form that XLA may come to write\n", encoding="utf-8")
    artifact = replace(program.artifact, thunks=thunks)
    (note,) = inspect_artifact(artifact, effects_cache=program.effects).coverage.not_covered
    assert note.startswith("the thunk sequence could not be read, so its command buffers are unknown: line 1")
