"""A case file that does not parse, import or end affects no other file; a program that reads the report always gets
one.
"""

import json
from pathlib import Path

import pytest
from jsonschema import validate

from tests.api.conftest import RunCli
from tools.json_schema import load_schema

GOOD = "from ligerdiag import Arg, Case\nCASE = Case(name='good', function=lambda x: x, args=(Arg(shape=(4,)),){})\n"
BROKEN = {
    "syntax": "CASE = (\n",
    "missing": "import no_such_package\nCASE = 1\n",
    "odd": GOOD.format(", expected='fersh'").replace("'good'", "'odd'"),
    "other": "CASE = 7\n",
    "killed": "import os\nos.abort()\nCASE = 1\n",
}
HANGING = "import time\ntime.sleep(6000)\nCASE = 1\n"


def test_each_broken_file_and_the_good_one_have_a_report(tmp_path: Path, run_cli: RunCli) -> None:
    for name, text in BROKEN.items():
        (tmp_path / f"{name}.py").write_text(text)
    (tmp_path / "good.py").write_text(GOOD.format(""))
    files = [f"{name}.py" for name in (*BROKEN, "good")]
    outcome = run_cli("check", *files, "--format", "json", "--no-replay", cwd=tmp_path)
    report = json.loads(outcome.out)
    validate(report, load_schema())
    cases = {case["id"]: case for case in report["cases"]}
    assert cases["good"]["status"] == "nothing to check"
    assert set(cases) == {"good", *(f"{name}.py" for name in BROKEN)}
    assert {cases[f"{name}.py"]["status"] for name in BROKEN} == {"could not analyse"}
    assert "SyntaxError" in cases["syntax.py"]["error"]
    assert "no_such_package" in cases["missing.py"]["error"]
    assert "did you mean `fresh`" in cases["odd.py"]["error"]
    assert "SIGABRT" in cases["killed.py"]["error"]
    assert (outcome.code, report["exit_code"]) == (2, 2)
    assert "Traceback" not in outcome.err


def test_a_file_that_hangs_is_ended_and_has_its_report(tmp_path: Path, run_cli: RunCli) -> None:
    """The run also has a broken file, and no other file that must finish in time."""
    (tmp_path / "hanging.py").write_text(HANGING)
    (tmp_path / "other.py").write_text(BROKEN["other"])
    files = ("hanging.py", "other.py")
    outcome = run_cli("check", *files, "--format", "json", "--no-replay", "--timeout", "5", cwd=tmp_path)
    cases = {case["id"]: case for case in json.loads(outcome.out)["cases"]}
    assert set(cases) == set(files)
    assert {case["status"] for case in cases.values()} == {"could not analyse"}
    assert "did not answer within 5 s and was ended" in cases["hanging.py"]["error"]
    assert outcome.code == 2


@pytest.mark.parametrize("name", ["syntax", "killed", "nowhere"])
def test_a_wrong_request_still_gives_programs_a_report(name: str, tmp_path: Path, run_cli: RunCli) -> None:
    if name in BROKEN:
        (tmp_path / f"{name}.py").write_text(BROKEN[name])
    outcome = run_cli("check", f"{name}.py", "--format", "json", "--no-replay", cwd=tmp_path)
    report = json.loads(outcome.out)
    validate(report, load_schema())
    (case,) = report["cases"]
    assert outcome.err.splitlines()[-1] == f"error: {case['error']}"
    assert outcome.code == report["exit_code"] == (3 if name == "killed" else 2)
