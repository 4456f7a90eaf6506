"""The comments and entries that allow a finding, and the messages about those that allow none."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ligerdiag.model.findings import Finding, SourceLine, SuppressionKind, Verdict
from ligerdiag.model.jobs import Source
from ligerdiag.model.report import CaseReport, Coverage, Status
from ligerdiag.report.allowed.suppressions import ConfigEntry, SeenScope, Suppressions, compute_scope
from tests.report.samples import make_case, make_finding

ANALYSED = Coverage(hidden_writes=1)


def entry(**changes: str) -> ConfigEntry:
    fields = {"rule": "LD003", "reason": "only logged", "directory": "/project", "where": "pyproject.toml number 1"}
    return ConfigEntry(**{**fields, **changes})


def latent(**changes: object) -> Finding:
    fields: dict[str, object] = {"rule": "LD003", "outputs": ("loss", "logits"), "kernel": "ce_kernel"}
    fields["source"] = SourceLine(file="/project/models/ce.py", line=2)
    return make_finding(**{**fields, **changes})


def case_of(*findings: Finding, case_id: str = "step[a-1]", **changes: object) -> CaseReport:
    fields: dict[str, object] = {"coverage": ANALYSED, "outputs": {"loss": Verdict.FRESH}, "findings": findings}
    return make_case(case_id, Status.FINDINGS, **{**fields, **changes})


def is_allowed(finding: Finding, *entries: ConfigEntry, case_id: str = "step[a-1]") -> bool:
    (marked,) = Suppressions(entries).apply(case_id, "h100", (finding,), ["/"])
    assert replace(marked, suppressed=None) == finding
    return marked.suppressed is not None


@pytest.mark.parametrize(
    ("filters", "allowed"),
    [
        ({}, True),
        ({"rule": "LD001"}, False),
        ({"case": "step[a-1]"}, True),
        ({"case": "step[*]"}, True),
        ({"case": "step"}, False),
        ({"case": "step[a]"}, False),
        ({"kernel": "ce_*"}, True),
        ({"kernel": "rms_*"}, False),
        ({"output": "lo*"}, True),
        ({"output": "loss"}, False),
        ({"source": "models/*.py"}, True),
        ({"source": "/project/models/ce.py"}, True),
        ({"source": "ce.py"}, False),
        ({"source": "models/*.py", "kernel": "rms_*"}, False),
        ({"directory": "/proj", "source": "models/*.py"}, False),
    ],
)
def test_every_filter_of_an_entry_must_match(filters: dict[str, str], allowed: bool) -> None:
    assert is_allowed(latent(), entry(**filters)) is allowed


@pytest.mark.parametrize(
    ("filters", "finding"),
    [
        ({"output": "*"}, latent(outputs=())),
        ({"source": "*"}, latent(source=None)),
        ({"kernel": "*"}, latent(kernel="")),
    ],
)
def test_a_filter_does_not_match_a_finding_that_lacks_the_field(filters: dict[str, str], finding: Finding) -> None:
    assert not is_allowed(finding, entry(**filters))


def test_one_matching_entry_of_several_is_enough() -> None:
    assert is_allowed(latent(), entry(kernel="rms_*"), entry(case="step[*]"))


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "mine.py"
    path.write_text("x = 1\ny = x + 1  # ligerdiag: allow LD003 only logged\n")
    return path


def at(path: Path, line: int, rule: str = "LD003") -> Finding:
    return latent(rule=rule, source=SourceLine(file=str(path), line=line))


def test_a_comment_allows_only_its_rule_on_its_line(module: Path) -> None:
    findings = (at(module, 2), at(module, 1), at(module, 2, "LD001"), at(module, 0), latent(source=None))
    allowed = Suppressions().apply("step", "h100", findings, [str(module.parent)])
    assert [finding.suppressed is not None for finding in allowed] == [True, False, False, False, False]
    said = allowed[0].suppressed
    assert said is not None
    assert (said.kind, said.reason, said.where) == (SuppressionKind.IN_CODE, "only logged", "mine.py:2")


def test_a_comment_counts_only_in_the_user_s_own_file(module: Path, tmp_path: Path) -> None:
    roots = [str(tmp_path / "mine")]
    link = tmp_path / "mine" / "link.py"
    link.parent.mkdir()
    link.symlink_to(module)
    for finding in (at(module, 2), at(link, 2)):
        assert Suppressions().apply("step", "h100", (finding,), roots)[0].suppressed is None
        assert Suppressions().apply("step", "h100", (finding,))[0].suppressed is None
        assert Suppressions().apply("step", "h100", (finding,), [str(tmp_path)])[0].suppressed is not None


def test_a_comment_that_came_with_a_dump_allows_nothing(module: Path) -> None:
    suppressions = Suppressions(foreign=[str(module.parent)])
    (finding,) = suppressions.apply("step", "h100", (at(module, 2),), [str(module.parent)])
    assert finding.suppressed is None


def test_a_comment_without_a_reason_allows_nothing(module: Path) -> None:
    module.write_text("y = 1  # ligerdiag: allow LD003\n")
    assert not is_allowed(at(module, 1))


def test_a_comment_outranks_an_entry_and_both_count_as_used(module: Path) -> None:
    suppressions = Suppressions((entry(),))
    (finding,) = suppressions.apply("step", "h100", (at(module, 2),), [str(module.parent)])
    assert finding.suppressed is not None
    assert finding.suppressed.kind is SuppressionKind.IN_CODE
    assert unused(suppressions, case_of(finding), everything=True) == []


def unused(suppressions: Suppressions, *cases: CaseReport, **scope: object) -> list[tuple[str, str]]:
    found = suppressions.list_unused(cases, SeenScope(**scope))  # type: ignore[arg-type]
    return [(one.where, one.message) for one in found]


NOT_USED = [("mine.py:2", "is not used: no finding of LD003 at line 2")]


def test_a_comment_in_a_case_s_own_file_is_unused_if_all_its_cases_were_in_the_run(module: Path) -> None:
    case = case_of()
    assert unused(Suppressions(), case, files={str(module): (case,)}) == NOT_USED
    assert unused(Suppressions(), case) == []


def test_a_comment_in_another_file_is_unused_if_everything_was_in_the_run(module: Path) -> None:
    for everything, expected in ((True, NOT_USED), (False, [])):
        suppressions = Suppressions()
        findings = suppressions.apply("step", "h100", (at(module, 1),), [str(module.parent)])
        assert unused(suppressions, case_of(*findings), everything=everything) == expected


@pytest.mark.parametrize("rule", ["LD012", "LD017"])
def test_a_rule_without_numbers_makes_no_suppression_unused(module: Path, rule: str) -> None:
    module.write_text(f"y = 1  # ligerdiag: allow {rule} only logged\n")
    case = case_of()
    assert unused(Suppressions((entry(rule=rule),)), case, files={str(module): (case,)}, everything=True) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"status": Status.ERROR, "error": "aborted"},
        {"outputs": {"loss": Verdict.UNKNOWN}},
        {"coverage": Coverage(hidden_writes=1, not_covered=("a loop",))},
    ],
)
def test_a_case_that_was_not_analysed_makes_no_suppression_unused(module: Path, changes: dict[str, object]) -> None:
    case = replace(case_of(), **changes)
    assert unused(Suppressions((entry(),)), case, files={str(module): (case,)}, everything=True) == []


@pytest.mark.parametrize(
    ("line", "rule", "message"),
    [
        (
            "y = 1  # ligerdiag: allow LD003",
            "LD003",
            "allows nothing without a reason: write `# ligerdiag: allow LD003 why it is right all the same`",
        ),
        (
            "y = 1  # ligerdiag: allow LD999 never",
            "LD999",
            "names no rule: write for example `# ligerdiag: allow LD003 why it is right all the same`",
        ),
        (
            "y = 1  # ligerdiag: allow",
            "",
            "names no rule: write for example `# ligerdiag: allow LD003 why it is right all the same`",
        ),
    ],
)
def test_a_malformed_comment_is_always_reported(module: Path, line: str, rule: str, message: str) -> None:
    module.write_text(f"{line}\n")
    suppressions = Suppressions()
    suppressions.apply("step", "h100", (at(module, 1),), [str(module.parent)])
    (one,) = suppressions.list_unused((case_of(),), SeenScope())
    assert (one.kind, one.rule, one.where, one.message) == (SuppressionKind.IN_CODE, rule, "mine.py:1", message)


def unused_entries(one: ConfigEntry, cases: Sequence[CaseReport], **scope: object) -> list[str]:
    return [message for _, message in unused(Suppressions((one,)), *cases, **scope)]


def test_an_entry_is_unused_only_if_the_run_had_every_case_that_it_can_match() -> None:
    cases = (case_of(), case_of(case_id="other"))
    missed = "is not used: no finding of LD003 matches it in"
    assert unused_entries(entry(), cases, everything=True) == [f"{missed} 2 cases"]
    assert unused_entries(entry(), cases) == []
    assert unused_entries(entry(case="step[*]"), cases, everything=True) == [f"{missed} `step[a-1]`"]
    assert unused_entries(entry(case="step[*]"), cases, ids=frozenset({"step[a-1]"})) == []
    assert unused_entries(entry(case="step[a-1]"), cases, ids=frozenset({"step[a-1]"})) == [f"{missed} `step[a-1]`"]
    assert unused_entries(entry(case="not here"), cases, everything=True) == []


def test_an_entry_that_matched_is_used() -> None:
    suppressions = Suppressions((entry(),))
    (finding,) = suppressions.apply("step", "h100", (latent(),))
    assert unused(suppressions, case_of(finding), everything=True) == []


def scope_of(folder: Path, *selectors: str, targets: tuple[str, ...] = ("h100",)) -> SeenScope:
    source = Source(file=str(folder / "cases" / "a.py"), root=str(folder))
    reports = [(source, case_of(case_id=case_id)) for case_id in ("a[1]", "a[2]")]
    return compute_scope(selectors, folder, reports, targets=targets, usual_targets=("h100",))


def test_the_scope_follows_the_selectors_and_the_targets(tmp_path: Path) -> None:
    (tmp_path / "cases").mkdir()
    file = tmp_path / "cases" / "a.py"
    file.write_text("CASES = ()\n")
    (tmp_path / "pyproject.toml").touch()
    both = scope_of(tmp_path)
    assert both.everything
    assert both.ids == {"a[1]", "a[2]"}
    assert {path: len(reports) for path, reports in both.files.items()} == {str(file): 2}
    by_file = scope_of(tmp_path, "cases/a.py")
    assert (by_file.everything, set(by_file.files)) == (False, {str(file)})
    by_id = scope_of(tmp_path, "a[1]")
    assert (by_id.everything, by_id.files, by_id.ids) == (False, {}, {"a[1]", "a[2]"})
    assert scope_of(tmp_path, targets=("a100",)) == SeenScope()
    assert scope_of(tmp_path, targets=("a100", "h100")).everything
