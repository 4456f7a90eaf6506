"""`inspect` of StableHLO in each form, and of programs that `jax.export` has serialized."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import jsonschema
import pytest
from jax import export
from jax.sharding import AxisType

from ligerdiag.api.stablehlo_files import is_stablehlo
from ligerdiag.compile.lowering.jax_versions import assume_gpu
from ligerdiag.errors import InputError
from ligerdiag.model.findings import Verdict
from ligerdiag.model.report import CheckReport, Status
from ligerdiag.untrusted_files import MAXIMUM_STABLEHLO_BYTES
from tests.api.stablehlo_programs import ADD, CALL, V, W, X, declared, hidden, lower, recomputed, render_bytecode
from tests.dumps.conftest import Inspect, outputs
from tools.json_schema import load_schema

type Save = Callable[[str, str | bytes], Path]


@pytest.fixture
def save(tmp_path: Path) -> Save:
    def write(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def make_exported() -> Any:
    allowed = [export.DisabledSafetyCheck.custom_call("triton_kernel_call")]
    with assume_gpu(90):
        return export.export(jax.jit(hidden), platforms=["cuda"], disabled_checks=allowed)(X, X, w=W)


def find_error(report: CheckReport) -> str:
    (case,) = report.cases
    assert case.status is Status.ERROR
    assert case.error_exit_code == 3
    return case.error


@pytest.mark.parametrize(
    ("name", "render"),
    [
        ("step.mlir", lambda: lower(hidden, X, X, w=W).as_text()),
        ("step.stablehlo", lambda: lower(hidden, X, X, w=W).as_text(debug_info=True)),
        ("step.mlirbc", lambda: render_bytecode(lower(hidden, X, X, w=W))),
        ("portable", lambda: make_exported().mlir_module_serialized),
        ("exported.mlir", lambda: make_exported().mlir_module()),
    ],
)
def test_a_hidden_write_is_found_in_each_form(
    name: str, render: Callable[[], str | bytes], save: Save, inspect: Inspect
) -> None:
    report = inspect(save(name, render()), replay=True)
    (case,) = report.cases
    assert not case.error, case.error
    assert (case.id, case.target, case.status) == (name, "h100", Status.FINDINGS)
    assert [verdict.value for verdict in case.outputs.values()] == ["stale", "fresh"]
    assert case.coverage.tags_found > 0
    assert case.replay is not None
    assert (case.replay.state.value, case.disagreements) == ("done", ())
    assert any("the program is the StableHLO as written" in note for note in report.notes)


def test_a_serialized_export_is_judged_as_check_judges_it(save: Save, inspect: Inspect) -> None:
    pytest.importorskip("flatbuffers")
    path = save("step.bin", bytes(make_exported().serialize()))
    report = inspect(path)
    assert outputs(report) == ["stale", "fresh"]
    assert list(report.cases[0].outputs) == ["back", "sums"]
    cut = save("cut.bin", path.read_bytes()[:3000])
    assert "`cut.bin`: `jax.export` cannot read the program" in find_error(inspect(cut))


@pytest.mark.parametrize(
    ("has_locations", "reason"),
    [
        (True, "from before or from after `double_in_place` overwrites it"),
        (False, "which has no name, is a derivative that reads"),
    ],
)
def test_a_derivative_that_may_read_what_autodiff_saved_is_unknown(
    has_locations: bool, reason: str, save: Save, inspect: Inspect
) -> None:
    report = inspect(save("step.mlir", lower(recomputed, V).as_text(debug_info=has_locations)))
    (case,) = report.cases
    assert (case.status, outputs(report)) == (Status.INCONCLUSIVE, ["fresh", "unknown"])
    assert any(reason in line for line in case.coverage.not_covered), case.coverage


def test_a_declared_write_is_fresh_on_each_target(save: Save, inspect: Inspect) -> None:
    report = inspect(save("step.mlir", lower(declared, X, W).as_text()), targets=("h100", "a100"))
    assert [case.target for case in report.cases] == ["h100", "a100"]
    for case in report.cases:
        assert {verdict.value for verdict in case.outputs.values()} == {"fresh"}, case


def test_a_module_without_a_custom_call_has_nothing_to_check(save: Save, inspect: Inspect) -> None:
    (case,) = inspect(save("add.mlir", ADD)).cases
    assert (case.status, case.error) == (Status.NOTHING, "")


def test_an_unknown_target_leaves_the_outputs_unknown(save: Save, inspect: Inspect) -> None:
    report = inspect(save("call.mlir", CALL))
    assert outputs(report) == ["unknown"]
    assert {finding.rule for finding in report.cases[0].findings} == {"LD014"}


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("text.mlir", ADD.replace("stablehlo.add", "stablehlo.adding"), "custom op 'stablehlo.adding' is unknown"),
        ("letters.mlir", b"\xff\xfe\x00", "UnicodeDecodeError"),
        ("empty.mlir", "", "the module has no function `main`"),
        ("other.mlir", ADD.replace("@main", "@start"), "the module has no function `main`"),
        ("sizes.mlir", ADD.replace("4xf32", "?xf32"), "has the type `tensor<?xf32>`: expected an array of fixed sizes"),
        ("replicas.mlir", ADD.replace("@add", "@add attributes {mhlo.num_replicas = 2 : i32}"), "for 2 replicas"),
        ("gspmd.mlir", ADD.replace("@add", "@add attributes {mhlo.num_partitions = 2 : i32}"), "no mesh of Shardy"),
        ("part.mlir", CALL.replace("@mystery", "@CustomSPMDPartitioning"), "`custom_partitioning`"),
    ],
)
def test_a_module_that_cannot_be_compiled_is_one_error(
    name: str, content: str | bytes, said: str, save: Save, inspect: Inspect
) -> None:
    error = find_error(inspect(save(name, content)))
    assert error.startswith(f"`{name}`: ")
    assert said in error


@pytest.mark.parametrize("form", ["own", "portable"])
def test_truncated_bytecode_is_one_error(form: str, save: Save, inspect: Inspect) -> None:
    whole = render_bytecode(lower(hidden, X, X, w=W)) if form == "own" else make_exported().mlir_module_serialized
    assert "jaxlib cannot parse the module as StableHLO" in find_error(
        inspect(save("cut.mlirbc", whole[: len(whole) // 2]))
    )


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path, inspect: Inspect) -> None:
    path = tmp_path / "large.mlir"
    path.touch()
    os.truncate(path, MAXIMUM_STABLEHLO_BYTES + 1)
    assert "more than the" in find_error(inspect(path))


def test_a_broken_file_leaves_the_others_and_a_dump_judged(save: Save, inspect: Inspect, dumps: Path) -> None:
    good, bad = save("good.mlir", lower(declared, X, W).as_text()), save("bad.mlir", "module {")
    report = inspect(dumps / "losses", bad, good)
    by_id = {case.id: case for case in report.cases}
    assert by_id["bad.mlir"].status is Status.ERROR
    assert set(by_id["good.mlir"].outputs.values()) == {Verdict.FRESH}
    assert len(report.cases) == 3


def test_a_module_for_several_devices_is_partitioned(save: Save, inspect: Inspect) -> None:
    mesh = jax.sharding.AbstractMesh((4,), ("x",), axis_types=(AxisType.Auto,))
    split = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
    whole = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())

    def local(x: Any, w: Any) -> Any:
        return tuple(hidden(x, x, w=w).values())

    parts = (jax.sharding.PartitionSpec("x"), jax.sharding.PartitionSpec())
    function = jax.shard_map(local, mesh=mesh, in_specs=parts, out_specs=parts[0], check_vma=False)
    x = jax.ShapeDtypeStruct((64, 8), jnp.float32, sharding=split)
    lowered = lower(function, x, jax.ShapeDtypeStruct((8, 16), jnp.float32, sharding=whole))
    report = inspect(save("step.mlir", lowered.as_text()), replay=True)
    assert sorted(outputs(report)) == ["fresh", "stale"]
    assert report.cases[0].disagreements == ()


def test_the_command_has_the_exit_codes_of_inspect(save: Save, run_cli: Callable[..., Any]) -> None:
    hazard, bad = save("step.mlir", lower(hidden, X, X, w=W).as_text()), save("bad.mlir", "module {")
    found = run_cli("inspect", hazard, "--target", "a100,h100", "--format", "json", "--no-replay")
    report = json.loads(found.out)
    jsonschema.validate(report, load_schema())
    assert (found.code, [case["target"] for case in report["cases"]]) == (1, ["a100", "h100"])
    assert run_cli("inspect", bad).code == 3
    assert run_cli("inspect", save("add.mlir", ADD)).code == 5
    assert run_cli("inspect", hazard, "--target", "none-such").code == 2
    assert run_cli("inspect", hazard, "--module", "other*").code == 2


def test_options_of_a_compile_need_stablehlo(dumps: Path, inspect: Inspect) -> None:
    for words, option in (({"targets": ("a100",)}, "--target"), ({"toolchain": "default"}, "--toolchain")):
        with pytest.raises(InputError, match=f"`{option}` is for files with StableHLO"):
            inspect(dumps / "losses", **words)


def test_stablehlo_is_recognised_by_its_name_or_its_beginning(save: Save, dumps: Path) -> None:
    assert is_stablehlo(save("step.mlir", ""))
    assert is_stablehlo(save("step", "module @x {\n}"))
    assert is_stablehlo(save("bytecode", b"ML\xefR\x0d"))
    assert not is_stablehlo(save("step.txt", "HloModule x"))
    assert not any(is_stablehlo(path) for path in dumps.rglob("*"))
