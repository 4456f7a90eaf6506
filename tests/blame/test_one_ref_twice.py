"""One `Ref`, or one value, passed for two pointers that a kernel writes through is found if part of the result is lost."""

import json
import subprocess
from pathlib import Path

import pytest

from ligerdiag import api
from ligerdiag.model.findings import FAR, Attribution

FOLDER = Path(__file__).parent
VALUES = {"last_kept": ["y"], "referenced": ["y"], "first_kept": ["y"], "of_an_argument": ["y"], "in_a_loop": ["y"]}
_OF_Y = ("plain", "of_an_argument", "in_a_branch", "in_a_function", "written_again", "three_times")
REFS = {name: ["y"] for name in _OF_Y} | {"in_a_scan": ["last", "sums"]}
"""Case to the outputs that lack a part. The other cases have no finding."""


def test_one_value_passed_as_two_operands_is_found(shared_cache: Path) -> None:
    options = api.CheckOptions(selectors=(str(FOLDER / "values_twice.py"),), cache_directory=shared_cache, replay=False)
    cases = api.check(options).cases
    assert len(cases) == 8
    found = {case.id: [one for one in case.findings if one.rule == "LD026"] for case in cases}
    assert {name: list(one.outputs) for name, some in found.items() for one in some} == VALUES
    (finding,) = found["last_kept"]
    assert "overwrites one value through operands 0 and 1" in finding.message
    assert finding.message.endswith("the program drops output 0")


def test_a_missing_half_is_not_a_loss_of_precision(shared_cache: Path) -> None:
    """The relative error is 0.44, and the roundings add up to 1e-4."""
    options = api.CheckOptions(selectors=(f"{FOLDER / 'values_twice.py'}::referenced",), cache_directory=shared_cache)
    (case,) = api.check(options).cases
    assert case.replay is not None
    assert 0.3 < case.replay.reference["y"] < FAR
    assert case.replay.outputs["y"].attribution is Attribution.FRESH
    assert {"LD016", "LD026"} <= {one.rule for one in case.findings}
    assert not case.disagreements


@pytest.mark.nightly
def test_one_ref_passed_as_two_operands_is_found(plain_python: Path, tmp_path: Path) -> None:
    """With the versions of a plain install."""
    file = tmp_path / "refs_twice.py"
    file.write_text((FOLDER / "refs_twice.py").read_text(encoding="utf-8"), encoding="utf-8")
    words = [str(plain_python), "-m", "ligerdiag", "check", str(file), "--no-replay", "--format", "json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=500, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    cases = json.loads(done.stdout)["cases"]
    assert len(cases) == 12
    found = {case["id"]: [one for one in case["findings"] if one["rule"] == "LD026"] for case in cases}
    assert {name: one["outputs"] for name, some in found.items() for one in some} == REFS
    assert found["plain"][0]["message"] == (
        "`halves_kernel` overwrites one Ref through operands 0 and 1, and the program drops output 0"
    )
    assert found["three_times"][0]["message"].endswith("the program drops output 0 and output 1")
