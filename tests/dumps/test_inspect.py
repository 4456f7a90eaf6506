"""`inspect` on real dumps in all forms gives the same verdicts, a report of the files read, and exit codes."""

import gzip
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest

from ligerdiag import api
from ligerdiag.errors import InputError
from ligerdiag.hlo.xla_pb2 import HloProto
from ligerdiag.model.report import Status
from ligerdiag.report.json import render_json
from ligerdiag.report.terminal.full_report import render_terminal
from tests.dumps.conftest import CASES, ROOT, Inspect, Pick, only, outputs
from tools.json_schema import load_schema

PROTOS = ("optimizations.hlo.pb",)
KERNELS = tuple(name for name in CASES if name != "ordinary")

type RunCli = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def checked(cache: Path) -> dict[str, list[str]]:
    """Returns the verdicts of `check` on the same cases."""
    selectors = tuple(f"{ROOT / file}::{case}" for file, case in CASES.values())
    report = api.check(api.CheckOptions(selectors=selectors, cache_directory=cache, replay=False))
    by_id = {case.id: [verdict.value for verdict in case.outputs.values()] for case in report.cases}
    return {program: by_id[case] for program, (_, case) in CASES.items()}


@pytest.mark.parametrize("program", KERNELS)
def test_a_dump_gives_the_verdicts_of_check(
    program: str, dumps: Path, inspect: Inspect, checked: dict[str, list[str]]
) -> None:
    assert outputs(inspect(dumps / program)) == checked[program]


@pytest.mark.parametrize("program", KERNELS)
def test_without_tags_no_verdict_is_better_than_that_of_check(
    program: str, dumps: Path, inspect: Inspect, checked: dict[str, list[str]]
) -> None:
    found = outputs(inspect(dumps / f"{program}-untagged"))
    assert all(verdict in (meant, "unknown") for verdict, meant in zip(found, checked[program], strict=True)), found


def test_every_way_of_dumping_gives_the_same_verdicts(dumps: Path, pick: Pick, inspect: Inspect) -> None:
    whole = outputs(inspect(dumps / "losses"))
    protos = pick("losses", *PROTOS)
    files = only(protos)
    packed = protos.parent / "packed"
    packed.mkdir()
    for path in (*files.optimized, *files.program):
        (packed / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    renamed = protos.parent / "step.bin"
    shutil.copy(files.optimized[0], renamed)
    assert outputs(inspect(protos)) == whole
    assert outputs(inspect(packed)) == whole
    assert outputs(inspect(files.optimized[0])) == whole
    assert outputs(inspect(dumps / "passes")) == whole
    assert len(outputs(inspect(renamed))) == len(whole)


def test_a_bare_module_from_jax_is_read(pick: Pick, inspect: Inspect) -> None:
    folder = pick("losses", *PROTOS)
    for path in folder.iterdir():
        proto = HloProto()
        proto.ParseFromString(path.read_bytes())
        path.write_bytes(proto.hlo_module.SerializeToString())
    report = inspect(folder)
    assert len(outputs(report)) == 4
    assert not report.cases[0].coverage.buffer_assignment


def test_a_protobuf_without_its_buffer_assignment_takes_it_from_the_text(
    dumps: Path, pick: Pick, inspect: Inspect
) -> None:
    folder = pick("losses", *PROTOS, "-buffer-assignment.txt")
    (path,) = only(folder).optimized
    proto = HloProto()
    proto.ParseFromString(path.read_bytes())
    proto.ClearField("buffer_assignment")
    path.write_bytes(proto.SerializeToString())
    report = inspect(folder)
    assert report.cases[0].coverage.buffer_assignment
    assert outputs(report) == outputs(inspect(dumps / "losses"))


def test_a_truncated_protobuf_is_replaced_by_the_text_and_reported(dumps: Path, pick: Pick, inspect: Inspect) -> None:
    folder = pick("losses", *PROTOS, "optimizations.txt", "-buffer-assignment.txt")
    path = only(folder).optimized[0]
    path.write_bytes(path.read_bytes()[:-1000])
    report = inspect(folder)
    assert outputs(report) == outputs(inspect(dumps / "losses"))
    assert any("truncated" in note and path.name in note for note in report.notes)
    assert report.cases[0].status is not Status.CLEAN


def test_an_unreadable_file_is_an_error_of_its_module(pick: Pick, inspect: Inspect) -> None:
    folder = pick("losses", *PROTOS)
    pick("flce", *PROTOS, into="picked/other")
    path = next(path for path in folder.iterdir() if "after" in path.name)
    path.write_bytes(path.read_bytes()[:-1000])
    report = inspect(folder)
    broken, whole = report.cases
    assert (broken.status, broken.error_exit_code) == (Status.ERROR, 3)
    assert "truncated" in broken.error
    assert whole.status is Status.FINDINGS
    assert whole.id.startswith("other/")


def test_a_module_from_before_optimizations_has_no_schedule(pick: Pick, inspect: Inspect) -> None:
    folder = pick("losses", "before_optimizations.hlo.pb")
    (path,) = folder.iterdir()
    with pytest.raises(InputError, match="none after"):
        inspect(folder)
    (case,) = inspect(path).cases
    assert "holds no schedule" in case.error
    path.rename(folder / "step.hlo.pb")
    report = inspect(folder)
    assert not report.cases
    assert any("holds no schedule" in note for note in report.notes)


def test_an_artifact_of_check_is_inspected_with_everything_it_contains(
    dumps: Path, inspect: Inspect, cache: Path, checked: dict[str, list[str]]
) -> None:
    del dumps
    file, name = CASES["losses"]
    options = api.CheckOptions(selectors=(f"{ROOT / file}::{name}",), cache_directory=cache, replay=False)
    (known,) = api.check(options).cases
    report = inspect(Path(known.artifact))
    (case,) = report.cases
    assert (case.id, case.target, case.outputs) == (known.id, "h100", known.outputs)
    assert outputs(report) == checked["losses"]
    folder = Path(known.artifact).parent
    assert len(inspect(folder).cases) == len(list(folder.glob("*/manifest.json")))


def test_several_modules_are_one_report(dumps: Path, inspect: Inspect) -> None:
    report = inspect(dumps / "losses", dumps / "fresh", dumps / "ordinary")
    assert [case.status for case in report.cases] == [Status.FINDINGS, report.cases[1].status]
    assert report.targets == ("sm_9.0a",)
    assert "1 module without custom calls: nothing to check there" in report.notes
    jsonschema.validate(json.loads(render_json(report)), load_schema())
    text = render_terminal(report)
    assert "2 modules on sm_9.0a" in text
    assert "note: 1 module without custom calls" in text
    assert "expect" not in text.splitlines()[-1]


def test_ordinary_programs_have_nothing_to_check(dumps: Path, run_cli: RunCli) -> None:
    done = run_cli("inspect", dumps / "ordinary", dumps / "ordinary-untagged")
    assert done.code == 5
    assert "nothing to check: 2 modules, none has an in-place kernel (2 without custom calls)" in done.out
    done = run_cli("inspect", dumps / "fresh", "--format", "json")
    report = json.loads(done.out)
    assert (done.code, report["exit_code"]) == (5, 5)
    assert report["notes"] == ["nothing to check: 1 module, it has no in-place kernel (0 without custom calls)"]


def test_exit_codes_match_the_help(dumps: Path, pick: Pick, run_cli: RunCli, tmp_path: Path) -> None:
    assert run_cli("inspect", dumps / "losses").code == 1
    assert run_cli("inspect", dumps / "losses", "--fail-on", "never").code == 0
    missing = run_cli("inspect", tmp_path / "missing")
    assert (missing.code, missing.out) == (2, "")
    assert missing.err.startswith("error: no file or directory")
    assert run_cli("inspect").code == 2
    folder = pick("losses", *PROTOS)
    (next(path for path in folder.iterdir() if "after" in path.name)).write_bytes(b"nothing")
    assert run_cli("inspect", folder).code == 3


def test_a_report_goes_to_a_file_and_the_table_is_still_shown(dumps: Path, run_cli: RunCli, tmp_path: Path) -> None:
    done = run_cli("inspect", dumps / "losses", "--format", "json", "--output", tmp_path / "report.json")
    assert done.code == 1
    assert "STALE" in done.out
    report = json.loads((tmp_path / "report.json").read_text())
    jsonschema.validate(report, load_schema())
    assert report["cases"][0]["target"] == "sm_9.0a"


def test_a_module_is_chosen_by_its_name(dumps: Path, run_cli: RunCli) -> None:
    done = run_cli("inspect", dumps / "losses", "--module", "jit_comp*")
    assert done.code == 1
    done = run_cli("inspect", dumps / "losses", "--module", "*eval*")
    assert done.code == 2
    assert "no module matches `*eval*`" in done.err


MODULE = """HloModule {name}, is_scheduled=true

ENTRY e {{
  p = f32[4]{{0}} parameter(0)
  ROOT called = f32[4]{{0}} custom-call(p), custom_call_target="{name}_target"
}}
"""


def test_a_program_for_a_tpu_is_not_covered(tmp_path: Path, inspect: Inspect) -> None:
    """Its arrays are padded to tiles, so their bytes do not follow from their shapes."""
    file = tmp_path / "module_0001.jit_step.after_optimizations.txt"
    file.write_text(MODULE.format(name="one").replace("{0}", "{0:T(128)}"))
    (case,) = inspect(file).cases
    assert case.status is Status.ERROR
    assert case.error == (
        f"`{file.name}` is not covered: a program for a TPU, whose arrays are padded to tiles; ligerdiag judges programs"
        " for GPUs"
    )
    assert case.outputs == {}


def test_each_module_of_a_text_is_inspected(tmp_path: Path, inspect: Inspect) -> None:
    file = tmp_path / "several.hlo"
    modules = [MODULE.format(name=name) for name in ("one", "other")]
    file.write_text(
        "// RUN: opt %s | FileCheck %s\n" + "\n// -----\n\n".join([*modules, MODULE.format(name="bad")[:-9]])
    )
    for path in (file, tmp_path):
        cases = inspect(path).cases
        assert [case.id for case in cases] == [f"several.hlo#{number}" for number in (1, 2, 3)]
        assert [case.status for case in cases] == [Status.INCONCLUSIVE, Status.INCONCLUSIVE, Status.ERROR]
        said = [finding.message for case in cases for finding in case.findings]
        assert [message.split("`")[1] for message in said] == ["one_target", "other_target"]
