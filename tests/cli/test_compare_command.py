"""`ligerdiag compare` on files, `check --toolchain A,B`, and the budgets of `check` and `inspect`."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from ligerdiag.api import report_comparing
from ligerdiag.errors import InputError
from ligerdiag.model.memory_limits import MemoryBudgets
from ligerdiag.model.report import CheckReport
from ligerdiag.report.compared.report_comparison import ReportComparison, compare_reports, make_side
from ligerdiag.report.json import render_json
from ligerdiag.run_options import CheckOptions
from tests.cli.conftest import FakeApi, RunCommand
from tests.report.compared_samples import (
    NEW,
    OLD,
    compare_by_hand,
    make_compared,
    make_compared_report,
)
from tests.report.samples import make_report


@dataclass(frozen=True)
class Files:
    """The reports of two states."""

    old: str
    new: str


@pytest.fixture
def files(tmp_path: Path) -> Files:
    found = Files(str(tmp_path / "old.json"), str(tmp_path / "new.json"))
    Path(found.old).write_text(render_json(make_compared_report(OLD)))
    Path(found.new).write_text(render_json(make_compared_report(NEW, "0.11.2")))
    return found


def test_two_reports_are_compared_and_1_says_that_something_is_worse(files: Files, run_command: RunCommand) -> None:
    outcome = run_command("compare", files.old, files.new)
    assert outcome.code == 1
    assert "140.0 MiB → 204.0 MiB" in outcome.out
    assert "3 worse" in outcome.out.splitlines()[-1]
    assert run_command("compare", files.old, files.old).code == 0


def test_each_format_goes_where_it_is_sent(files: Files, tmp_path: Path, run_command: RunCommand) -> None:
    page, data = tmp_path / "c.md", tmp_path / "c.json"
    outcome = run_command("compare", files.old, files.new, "--output", f"markdown={page}", "--output", f"json={data}")
    assert outcome.out.startswith("old: old.json")
    assert page.read_text() == run_command("compare", files.old, files.new, "--format", "markdown").out
    assert json.loads(data.read_text())["exit_code"] == 1
    assert data.read_text() == run_command("compare", files.old, files.new, "--format", "json").out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "expected JSON"),
        ("{}", "expected an array for `cases`"),
        (render_json(make_compared_report([make_compared("other")])), "no case is in both reports"),
    ],
)
def test_bad_input_is_2_in_one_line(text: str, said: str, files: Files, run_command: RunCommand) -> None:
    Path(files.new).write_text(text)
    outcome = run_command("compare", files.old, files.new)
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert said in outcome.err


def test_a_file_that_is_not_there_and_a_format_that_no_comparison_has_are_2(
    files: Files, tmp_path: Path, run_command: RunCommand
) -> None:
    assert "there is no" in run_command("compare", files.old, str(tmp_path / "none.json")).err
    outcome = run_command("compare", files.old, files.new, "--output", f"sarif={tmp_path / 'a'}")
    assert (outcome.code, outcome.err) == (
        2,
        "error: expected one of terminal, json, markdown for a comparison but got `sarif`\n",
    )


def test_reports_of_one_name_are_labelled_with_their_folders(tmp_path: Path, run_command: RunCommand) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "r.json").write_text(render_json(make_compared_report(OLD)))
    outcome = run_command("compare", str(tmp_path / "one/r.json"), str(tmp_path / "two/r.json"))
    assert outcome.out.startswith("old: one/r.json, jax-0.10.0; new: two/r.json, ")


@dataclass
class CompareApi(FakeApi):
    """With the comparison of two toolchains."""

    compared: list[tuple[str, ...]] = field(default_factory=list)

    def compare_toolchains(
        self, options: CheckOptions, toolchains: tuple[str, ...], on_progress: object = None
    ) -> ReportComparison:
        del on_progress
        self.asked.append(options)
        self.compared.append(toolchains)
        return compare_by_hand(OLD, NEW)


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> CompareApi:
    import sys

    import ligerdiag

    fake = CompareApi()
    monkeypatch.setitem(sys.modules, "ligerdiag.api", fake)  # type: ignore[arg-type]
    monkeypatch.setattr(ligerdiag, "api", fake, raising=False)
    return fake


def test_two_toolchains_are_compared(api: CompareApi, run_command: RunCommand) -> None:
    outcome = run_command("check", "mine.py", "--toolchain", "0.10,default", "--target", "a100", "--no-replay")
    assert (outcome.code, api.compared) == (1, [("0.10", "default")])
    assert (api.asked[0].selectors, api.asked[0].targets, api.asked[0].replay) == (("mine.py",), ("a100",), False)
    assert "3 worse" in outcome.out
    outcome = run_command("check", "mine.py", "--toolchain", "0.10,default", "--format", "markdown")
    assert outcome.out.startswith("## ligerdiag compare\n")


@pytest.mark.parametrize(
    ("option", "said"),
    [("--record", "with --record"), ("--baseline", "with --baseline"), ("--html", "with --html")],
)
def test_options_of_one_report_are_refused(
    option: str, said: str, api: CompareApi, tmp_path: Path, run_command: RunCommand
) -> None:
    outcome = run_command("check", "--toolchain", "0.10,default", option, str(tmp_path / "x"))
    assert (outcome.code, api.compared) == (2, [])
    assert said in outcome.err


def test_one_toolchain_is_a_check(api: CompareApi, run_command: RunCommand) -> None:
    run_command("check", "--toolchain", "0.10")
    assert (api.compared, api.asked[0].toolchain) == ([], "0.10")


def test_budgets_are_sizes_from_the_command_line_or_the_configuration(
    api: CompareApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_command: RunCommand
) -> None:
    monkeypatch.chdir(tmp_path)
    run_command("check", "--memory-budget", "60G", "--copy-budget", "0")
    (tmp_path / "pyproject.toml").write_text("[tool.ligerdiag]\nmemory_budget = '1.5GiB'\ncopy_budget = '1M'\n")
    run_command("check")
    run_command("check", "--copy-budget", "2M")
    assert [options.budgets for options in api.asked] == [
        MemoryBudgets(memory=60 << 30, copies=0),
        MemoryBudgets(memory=3 << 29, copies=1 << 20),
        MemoryBudgets(memory=3 << 29, copies=2 << 20),
    ]


@pytest.mark.parametrize("size", ["60P", "lots", "-1", "0", "", "1e400", "9" * 400])
@pytest.mark.parametrize("command", [("check",), ("inspect", ".")])
def test_another_size_is_2(size: str, command: tuple[str, ...], api: CompareApi, run_command: RunCommand) -> None:
    outcome = run_command(*command, f"--memory-budget={size}")
    assert (outcome.code, api.asked) == (2, [])
    assert "expected a size such as 500M" in outcome.err


def test_both_toolchains_are_checked_with_the_same_options(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[CheckOptions] = []

    def check(options: CheckOptions, on_progress: object) -> CheckReport:
        del on_progress
        asked.append(options)
        return make_compared_report(OLD if options.toolchain == "0.10" else NEW)

    monkeypatch.setattr(report_comparing, "check", check)
    options = CheckOptions(orders=3)
    comparison = report_comparing.compare_toolchains(options, ("0.10", "default"))
    assert [(one.toolchain, one.orders) for one in asked] == [("0.10", 3), ("default", 3)]
    assert (comparison.old.label, comparison.new.label, len(comparison.cases)) == ("0.10", "default", 6)
    cond = next(case for case in comparison.cases if case.id == "cond")
    assert cond.hint == "ligerdiag diff 'cond' --targets h100 --toolchains 0.10,default"


@pytest.mark.parametrize("names", [(), ("a", "b", "c")])
def test_three_toolchains_are_refused(names: Sequence[str]) -> None:
    with pytest.raises(InputError, match="expected one toolchain, or two to compare"):
        report_comparing.compare_toolchains(CheckOptions(), names)


MODULE = """HloModule jit_step, is_scheduled=true

ENTRY %main (p: f32[1024]) -> f32[1024] {
  %p = f32[1024]{0} parameter(0)
  ROOT %c = f32[1024]{0} custom-call(%p), custom_call_target="mine", api_version=API_VERSION_TYPED_FFI
}
"""


def test_two_modules_of_any_names_are_inspected_and_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_command: RunCommand
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("before.txt", "after.txt"):
        Path(name).write_text(MODULE)
    Path("plain.txt").write_text(
        MODULE.replace('custom-call(%p), custom_call_target="mine", api_version=', "sine(%p) //")
    )
    outcome = run_command("compare", "before.txt", "after.txt", "--verbose", "--cache-dir", "cache")
    assert outcome.code == 0
    assert "same  after.txt" in outcome.out
    outcome = run_command("compare", "before.txt", "plain.txt", "--cache-dir", "cache")
    assert (outcome.code, "--xla_dump_hlo_as_proto" in outcome.err) == (2, True)


def test_a_report_and_a_module_of_another_name_are_matched_only_if_each_has_one() -> None:
    one, other, third = (make_compared(name) for name in ("before.txt", "after.txt", "third.txt"))
    old, new = (make_side(make_report(case, toolchain=""), "a") for case in (one, other))
    two = make_side(make_report(other, third, toolchain=""), "b")
    assert len(compare_reports(old, new).cases) == 1
    assert not compare_reports(old, two).cases
    checked = (replace(side, toolchain="jax-0.11.2") for side in (old, new))
    assert not compare_reports(next(checked), next(checked)).cases
