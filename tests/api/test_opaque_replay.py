"""Replays with opaque functions: of calls whose code nobody can read, and of every program with `--opaque`."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ligerdiag import api
from ligerdiag.effects.declared import parse_declarations
from ligerdiag.model.findings import Attribution, OpaqueReplay, ReplayState, Verdict
from ligerdiag.model.report import CaseReport, CheckReport
from ligerdiag.replay.replay_worker import Bounds
from ligerdiag.report.json import render_json
from ligerdiag.rules.schedules.ld001_stale_read import RULE
from ligerdiag.rules.schedules.ld003_latent_order import LUCKY_READER
from tests.api.conftest import RunCli

SCHEMA = jsonschema.Draft202012Validator(json.loads((Path(api.__file__).parents[1] / "report/schema.json").read_text()))

FOREIGN = """
import jax
from ligerdiag import Arg, Case


def scale(x):
    half = x * 0.5
    result = jax.ShapeDtypeStruct(x.shape, x.dtype)
    made = jax.ffi.ffi_call("my_scale", result)(half)
    return {"made": made, "read": jax.numpy.cumsum(half), "apart": x + 1}


CASE = Case(function=scale, args=(Arg(shape=(64,)),), name="scale")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("opaque")
    (path / "foreign.py").write_text(FOREIGN)
    (path / "lucky.py").write_text(LUCKY_READER.code)
    (path / "plain.py").write_text(FOREIGN.replace('jax.ffi.ffi_call("my_scale", result)(half)', "half.sum()"))
    return path


def check(file: Path, cache: Path, effects: dict[str, object] | None = None, *, opaque: bool = False) -> CheckReport:
    return api.check(
        api.CheckOptions(
            selectors=(str(file),), cache_directory=cache, effects=parse_declarations(effects or {}), opaque=opaque
        )
    )


def get_opaque(case: CaseReport) -> OpaqueReplay:
    assert case.replay is not None
    assert case.replay.opaque is not None
    return case.replay.opaque


def test_a_call_that_nobody_can_read_has_numbers_if_its_effects_are_declared(folder: Path, cache: Path) -> None:
    report = check(folder / "foreign.py", cache, {"my_scale": {"writes": [0]}})
    (case,) = report.cases
    opaque = get_opaque(case)
    assert case.replay is not None
    assert (case.replay.state, case.replay.outputs) == (ReplayState.NOT_COVERED, {})
    assert (opaque.state, opaque.kernels) == (ReplayState.DONE, ("my_scale",))
    assert case.disagreements == ()
    for name, verdict in case.outputs.items():
        assert opaque.outputs[name].attribution.is_wrong == verdict.is_wrong
    read = opaque.outputs["read"]
    assert read.distance > 0.1
    assert read.error < 1e-10 or read.stale_error < 1e-10
    SCHEMA.validate(json.loads(render_json(report)))
    (again,) = check(folder / "foreign.py", cache, {"my_scale": {"writes": [0]}}).cases
    assert get_opaque(again).cached
    (harmless,) = check(folder / "foreign.py", cache, {"my_scale": {"writes": []}}).cases
    assert not get_opaque(harmless).cached
    assert get_opaque(harmless).outputs["read"].distance == 0


def test_a_call_whose_effects_are_unknown_has_none(folder: Path, cache: Path) -> None:
    (case,) = check(folder / "foreign.py", cache).cases
    assert get_opaque(case).state is ReplayState.NOT_COVERED
    assert get_opaque(case).reason.startswith("the effects of `my_scale` are unknown")
    assert case.outputs["read"] is Verdict.UNKNOWN


def test_on_request_every_program_is_replayed_so(folder: Path, cache: Path) -> None:
    (asked,) = check(folder / "lucky.py", cache, opaque=True).cases
    opaque = get_opaque(asked)
    assert (opaque.state, opaque.reason) == (ReplayState.DONE, "")
    assert {one.attribution for one in opaque.outputs.values()} == {Attribution.FRESH}
    assert max(one.error for one in opaque.outputs.values()) < 1e-12
    (plain,) = check(folder / "plain.py", cache, opaque=True).cases
    assert (get_opaque(plain).state, get_opaque(plain).kernels) == (ReplayState.DONE, ())


def test_without_a_request_a_program_that_replay_covers_has_no_second_replay(folder: Path, cache: Path) -> None:
    (case,) = check(folder / "lucky.py", cache).cases
    assert case.replay is not None
    assert (case.replay.state, case.replay.opaque) == (ReplayState.DONE, None)


def test_the_report_shows_both_replays(folder: Path, run_cli: RunCli, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text("[tool.ligerdiag.effects.my_scale]\nwrites = [0]\n")
    outcome = run_cli("check", "foreign.py", "-v", "--config", config, cwd=folder)
    assert "not covered, opaque agrees" in outcome.out
    assert "replayed with opaque functions: 1 of 1: 1 agree" in outcome.out


def inspect(case: CaseReport, effects: dict[str, object], **words: Any) -> CaseReport:
    """Inspects the artifact of a case that was checked."""
    (found,) = api.inspect(
        api.InspectOptions(paths=(Path(case.artifact),), effects=parse_declarations(effects), **words)
    ).cases
    return found


def test_an_artifact_of_a_call_that_nobody_can_read_is_replayed_so(folder: Path, cache: Path) -> None:
    declared: dict[str, object] = {"my_scale": {"writes": [0]}}
    (checked,) = check(folder / "foreign.py", cache, declared).cases
    found = inspect(checked, declared, cache_directory=cache)
    assert found.replay is not None
    assert (found.replay.state, found.replay.outputs) == (ReplayState.NOT_COVERED, {})
    assert get_opaque(found).state is ReplayState.DONE
    assert found.disagreements == ()
    for name, numbers in get_opaque(checked).outputs.items():
        assert get_opaque(found).outputs[name].attribution is numbers.attribution, name
    assert get_opaque(found).outputs["read"].distance > 0.1


def test_an_artifact_that_replay_covers_is_replayed_so_on_request(folder: Path, cache: Path) -> None:
    (checked,) = check(folder / "lucky.py", cache).cases
    plain = inspect(checked, {}, cache_directory=cache)
    assert plain.replay is not None
    assert (plain.replay.state, plain.replay.opaque) == (ReplayState.DONE, None)
    asked = inspect(checked, {}, cache_directory=cache, opaque=True)
    assert asked.replay is not None
    assert asked.replay.outputs == plain.replay.outputs
    assert {one.attribution for one in get_opaque(asked).outputs.values()} == {Attribution.FRESH}
    assert get_opaque(asked).estimated_seconds > 0


def test_an_opaque_replay_above_the_bounds_is_too_large_and_costs_no_other_numbers(folder: Path, cache: Path) -> None:
    (checked,) = check(folder / "lucky.py", cache).cases
    whole = inspect(checked, {}, cache_directory=cache, opaque=True)
    assert whole.replay is not None
    limit = (whole.replay.estimated_bytes + get_opaque(whole).estimated_bytes) // 2
    found = inspect(checked, {}, cache_directory=cache, opaque=True, bounds=Bounds(memory=limit))
    assert found.replay is not None
    assert found.replay.outputs == whole.replay.outputs
    assert get_opaque(found).state is ReplayState.TOO_LARGE


def test_a_program_of_which_the_numbers_say_nothing_is_replayed_so(folder: Path, cache: Path) -> None:
    """Doubling keeps signs, so the sign of the stale contents is that of the intended ones."""
    code = RULE.bad[0].code.replace('{"total": total, "back": back}', '{"back": back}')
    (folder / "signs.py").write_text(
        code.replace("return total + sums.sum(), h @ w.T", "return total + sums.sum(), jnp.sign(h)")
    )
    (case,) = check(folder / "signs.py", cache).cases
    assert case.replay is not None
    assert case.outputs == {"back": Verdict.STALE}
    assert case.replay.outputs["back"].attribution is Attribution.FRESH
    assert case.replay.outputs["back"].distance == 0
    assert get_opaque(case).outputs["back"].attribution.is_wrong
