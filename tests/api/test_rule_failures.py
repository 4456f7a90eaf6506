"""If a rule fails, only that rule is lost on that module; any other failure loses only that module."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from ligerdiag.artifacts.artifact import OPTIMIZED, Artifact, write_manifest
from ligerdiag.artifacts.cache import Cache
from ligerdiag.cli.exit_codes import ExitCode, FailOn, compute_exit_code
from ligerdiag.compile.compile_service import compile_cases, discover_cases
from ligerdiag.hlo.xla_pb2 import HloProto
from ligerdiag.inspection import compilation as inspection
from ligerdiag.inspection.module_inspection import InspectionRequest, ModuleInspector
from ligerdiag.model.report import CheckReport, Status
from ligerdiag.report.json import render_json
from ligerdiag.report.status import conclude
from ligerdiag.report.terminal.full_report import render_terminal
from ligerdiag.rules import registry
from ligerdiag.toolchains.gpu_targets import load_target
from ligerdiag.workers.pool import Pool

PROGRAMS = Path(__file__).parents[1] / "compile" / "programs"


@pytest.fixture(scope="module")
def artifact(cache: Path) -> Artifact:
    with Pool(cache=Cache(cache), jobs=1) as pool:
        cases = discover_cases(["doubling.py"], pool=pool, directory=PROGRAMS)
        (result, *_) = compile_cases(cases, [load_target("h100")], pool=pool)
    assert result.artifact is not None, result.error
    return result.artifact


def run(tmp_path: Path, *paths: Path) -> CheckReport:
    """Returns the report of `inspect`, run in this process so that a rule can be made to fail."""

    def translate(text: bytes, name: str) -> bytes:
        raise AssertionError(name)

    inspector = ModuleInspector(request=InspectionRequest(), translate=translate, effects_cache=tmp_path / "effects")
    outcomes = [inspector.inspect_artifact(path) for path in paths]
    cases = tuple([conclude(outcome.judged) for outcome in outcomes if outcome.judged is not None])
    return CheckReport(cases=cases, targets=("h100",), toolchain="")


def code_of(report: CheckReport) -> ExitCode:
    return compute_exit_code(report, fail_on=FailOn.NEVER, strict=False)


def fail(context: object) -> tuple[()]:
    raise IndexError(f"no {context.__class__.__name__.lower()}")


def test_a_failing_rule_is_unknown_and_the_others_still_count(
    artifact: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (whole,) = run(tmp_path, artifact.directory).cases
    assert whole.failures == ()
    wanted = registry.get_rule("LD009")
    rules = tuple(replace(rule, check=fail) if rule is wanted else rule for rule in registry.RULES)
    monkeypatch.setattr(registry, "RULES", rules)
    report = run(tmp_path, artifact.directory)
    (case,) = report.cases
    assert [failure.rule for failure in case.failures] == ["LD009"]
    assert case.outputs == whole.outputs
    assert case.findings == tuple(finding for finding in whole.findings if finding.rule != "LD009")
    line = case.coverage.not_covered[0]
    assert line.startswith(
        "rule LD009 caller-clobbered failed, so it is unknown whether its hazard is present: IndexError no "
    )
    assert case.status in (Status.INCONCLUSIVE, Status.FINDINGS)
    assert code_of(report) is ExitCode.NOT_ANALYSED
    assert line in render_terminal(report, width=400)
    assert "rule LD009 caller-clobbered failed" in render_json(report)


def test_a_case_is_not_as_expected_if_a_rule_fails() -> None:
    from ligerdiag.model.findings import RuleFailure, Verdict
    from ligerdiag.model.report import Coverage
    from tests.report.samples import make_judged

    for expected in (None, "fresh", "hazard"):
        verdict = Verdict.STALE if expected == "hazard" else Verdict.FRESH
        for failures in ((), (RuleFailure(rule="LD009", message="rule LD009 failed"),)):
            coverage = Coverage(hidden_writes=1)
            made = make_judged(expected=expected, outputs={"a": verdict}, coverage=coverage, failures=failures)
            status = conclude(made).status
            assert status is Status.INCONCLUSIVE if failures else status in (Status.CLEAN, Status.EXPECTED)


def test_a_failing_measured_rule_keeps_its_static_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    from ligerdiag.rules.rule import Measured

    rules = tuple(replace(rule, measure=fail) if rule.measure is not None else rule for rule in registry.RULES)
    monkeypatch.setattr(registry, "RULES", rules)
    answers = registry.check_measured(Measured(outputs={}, findings=(), replay=None, device=None))
    assert [failure.rule for failure in answers.failures] == [rule.id for rule in rules if rule.measure is not None]


def test_a_missing_parameter_loses_no_module(artifact: Artifact, tmp_path: Path) -> None:
    (whole,) = run(tmp_path, artifact.directory).cases
    proto = HloProto.FromString((artifact.directory / OPTIMIZED).read_bytes())
    for number in range(len(proto.buffer_assignment.buffer_allocations)):
        changed = HloProto.FromString(proto.SerializeToString())
        allocation = changed.buffer_assignment.buffer_allocations[number]
        allocation.is_entry_computation_parameter = True
        allocation.parameter_number = 999
        folder = tmp_path / f"changed-{number}"
        shutil.copytree(artifact.directory, folder)
        (folder / OPTIMIZED).write_bytes(changed.SerializeToString())
        write_manifest(folder)
        report = run(tmp_path, folder, artifact.directory)
        assert [case.outputs for case in report.cases if not case.error][-1] == whole.outputs
        assert len(report.cases) == 2


def test_any_other_failure_loses_only_its_module(
    artifact: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    shutil.copytree(artifact.directory, other)
    calls: list[object] = []
    real = inspection.check_all

    def check_all(context: object) -> object:
        calls.append(context)
        if len(calls) == 1:
            raise ZeroDivisionError("by us")
        return real(context)  # type: ignore[arg-type]

    monkeypatch.setattr(inspection, "check_all", check_all)
    report = run(tmp_path, other, artifact.directory)
    first, second = report.cases
    assert first.error.startswith(
        "a bug in ligerdiag stopped the analysis: ZeroDivisionError by us (test_rule_failures.py:"
    )
    assert "ZeroDivisionError: by us" in first.log_tail
    assert not second.error
    assert second.outputs
    assert code_of(report) is ExitCode.NOT_ANALYSED
