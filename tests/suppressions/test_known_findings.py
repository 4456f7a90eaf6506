"""A project with thirty findings records them, and from then on only new ones count."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from ligerdiag.api import render_known_findings
from ligerdiag.errors import InputError
from ligerdiag.model.findings import Finding, Severity, SourceLine, SuppressionKind
from ligerdiag.model.report import Status
from ligerdiag.report.allowed.known_findings import KnownFindings, load_known
from ligerdiag.report.allowed.suppressions import Suppressions
from tests.report.samples import make_case, make_finding, make_report

DATE = "2026-11-26"
FOUND = make_finding(outputs=("bias", "input"))


def record(folder: Path, *findings: Finding, **case: object) -> KnownFindings:
    """Writes the findings of a run of one case, as `check --record-known` does, and reads them."""
    report = make_report(
        make_case("step", **{"status": Status.FINDINGS, "expected": None, "findings": findings, **case})
    )
    file = folder / "known.json"
    file.write_text(render_known_findings(report, file, DATE))
    return load_known(file)


def list_new(known: KnownFindings, *findings: Finding, case: str = "step", target: str = "h100") -> list[Finding]:
    return [one for one in Suppressions(known=known).apply(case, target, findings) if one.suppressed is None]


def test_a_known_finding_is_allowed_and_says_since_when(tmp_path: Path) -> None:
    (one,) = Suppressions(known=record(tmp_path, FOUND)).apply("step", "h100", (FOUND,))
    assert one.suppressed is not None
    assert (one.suppressed.kind, one.suppressed.reason) == (SuppressionKind.KNOWN, f"known since {DATE}")
    assert one.suppressed.where == str(tmp_path / "known.json")


@pytest.mark.parametrize(
    "changes",
    [
        {"source": SourceLine(file="elsewhere.py", line=400, function="step")},
        {"instructions": ("triton_kernel_call.9",), "message": "said in other words", "evidence": ()},
        {"outputs": ("bias",)},
        {"severity": Severity.WARNING},
    ],
)
def test_a_finding_that_moves_or_becomes_less_stays_known(tmp_path: Path, changes: dict[str, object]) -> None:
    assert list_new(record(tmp_path, FOUND), replace(FOUND, **changes)) == []  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changes",
    [
        {"rule": "LD001"},
        {"kernel": "other_kernel"},
        {"operand": 1},
        {"outputs": ("bias", "input", "weight")},
        {"source": SourceLine(file="train.py", line=41, function="other_step")},
    ],
)
def test_another_finding_is_new(tmp_path: Path, changes: dict[str, object]) -> None:
    other = replace(FOUND, **changes)  # type: ignore[arg-type]
    assert list_new(record(tmp_path, FOUND), other) == [other]


def test_a_finding_that_becomes_worse_is_new(tmp_path: Path) -> None:
    warning = replace(FOUND, severity=Severity.WARNING)
    assert list_new(record(tmp_path, warning), FOUND) == [FOUND]


def test_a_finding_of_another_case_or_target_is_new(tmp_path: Path) -> None:
    known = record(tmp_path, FOUND)
    assert list_new(known, FOUND, case="other") == [FOUND]
    assert list_new(known, FOUND, target="a100") == [FOUND]


def test_a_note_says_which_new_findings_are_known_only_on_another_target(tmp_path: Path) -> None:
    known = record(tmp_path, FOUND)
    (note,) = known.describe_other_targets([("step", "a100", FOUND)])
    assert note.startswith(f"`{tmp_path / 'known.json'}` records the new findings of `a100` only for `h100`: ")
    assert known.describe_other_targets([("step", "h100", FOUND), ("other", "a100", FOUND)]) == ()
    assert known.describe_other_targets([("step", "a100", replace(FOUND, rule="LD001"))]) == ()


def test_no_note_says_that_a_second_finding_of_a_known_kind_is_known_only_on_another_target(tmp_path: Path) -> None:
    record(tmp_path, FOUND)
    known = record(tmp_path, FOUND, target="a100")
    for target in ("a100", "h100"):
        assert list_new(known, FOUND, FOUND, target=target) == [FOUND]
    assert known.describe_other_targets([("step", "a100", FOUND), ("step", "h100", FOUND)]) == ()
    lesser = replace(FOUND, outputs=("bias",))
    record(tmp_path, replace(FOUND, outputs=("bias", "input", "weight")))
    assert load_known(tmp_path / "known.json").describe_other_targets([("step", "a100", lesser)]) == ()


def test_a_run_on_one_target_neither_drops_nor_calls_gone_what_is_known_on_another(tmp_path: Path) -> None:
    record(tmp_path, FOUND)
    known = record(tmp_path, FOUND, target="a100")
    assert {one.target for one in known.findings} == {"a100", "h100"}
    assert known.list_gone({("step", "b200")}) == ()
    assert list_new(known, FOUND, target="a100") == list_new(known, FOUND, target="h100") == []
    assert known.list_gone({("step", "a100"), ("step", "h100")}) == ()


def test_an_entry_allows_one_finding(tmp_path: Path) -> None:
    assert list_new(record(tmp_path, FOUND), FOUND, FOUND) == [FOUND]
    assert list_new(record(tmp_path, FOUND, FOUND), FOUND, FOUND) == []


def test_the_smaller_of_two_entries_is_used_first(tmp_path: Path) -> None:
    small = replace(FOUND, outputs=("bias",))
    assert list_new(record(tmp_path, FOUND, small), small, FOUND) == []


def test_an_entry_without_a_finding_is_gone_if_its_case_was_analysed(tmp_path: Path) -> None:
    known = record(tmp_path, FOUND)
    assert known.list_gone([("other", "h100")]) == ()
    assert [one.rule for one in known.list_gone([("step", "h100")])] == ["LD002"]
    list_new(known, FOUND)
    assert known.list_gone([("step", "h100")]) == ()


def test_recording_again_keeps_the_cases_that_were_not_analysed(tmp_path: Path) -> None:
    earlier = record(tmp_path, FOUND)
    assert record(tmp_path, status=Status.ERROR).findings == earlier.findings
    assert record(tmp_path).findings == ()


def test_what_is_allowed_otherwise_or_expected_is_not_recorded(tmp_path: Path) -> None:
    assert record(tmp_path, FOUND, status=Status.EXPECTED, expected="hazard").findings == ()
    (known,) = Suppressions(known=record(tmp_path, FOUND)).apply("step", "h100", (FOUND,))
    assert len(record(tmp_path, known).findings) == 1


@pytest.mark.parametrize("rule", ["LD015", "LD033", "LD034"])
def test_a_drift_or_an_exceeded_budget_is_never_known(tmp_path: Path, rule: str) -> None:
    assert record(tmp_path, FOUND, replace(FOUND, rule=rule)).findings == record(tmp_path, FOUND).findings


@pytest.mark.parametrize("rule", ["LD015", "LD033", "LD034"])
def test_a_drift_or_an_exceeded_budget_in_an_older_file_is_not_known(tmp_path: Path, rule: str) -> None:
    record(tmp_path, FOUND)
    file = tmp_path / "known.json"
    file.write_text(file.read_text().replace(f'"{FOUND.rule}"', f'"{rule}"'))
    assert load_known(file).findings == ()


def test_a_pipe_is_refused_and_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "known.json")
    with pytest.raises(InputError, match="is not a file"):
        load_known(tmp_path / "known.json")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no known findings that can be read"),
        ("[]", "no known findings that can be read"),
        (json.dumps({"format": 2, "recorded": DATE, "findings": []}), "expected format 1 but got 2"),
        (json.dumps({"format": 1, "recorded": DATE, "findings": [{"case": 3}]}), "no known findings that can be read"),
    ],
)
def test_another_file_is_refused_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "known.json"
    file.write_text(text)
    with pytest.raises(InputError, match=message):
        load_known(file)


def test_a_missing_file_says_how_to_write_it(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--record-known"):
        load_known(tmp_path / "known.json")
