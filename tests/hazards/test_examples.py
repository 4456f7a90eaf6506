"""The examples of each rule are its tests: really compiled and replayed, and judged like a user's own file."""

import re
from collections import Counter

import pytest

from ligerdiag.model.findings import Attribution, Finding, ReplayState, Severity, Verdict
from ligerdiag.rules.registry import RULES, get_rule
from ligerdiag.rules.rule import DecidedBy, Example, Rule, RuleKind, check_nothing
from ligerdiag.rules.schedules.ld009_caller_clobbered import ARRAY_PASSED_TWICE
from tests.hazards.conftest import Judge, list_good

BAD = [
    pytest.param(rule, example, id=f"{rule.id}-{n}")
    for rule in RULES
    if rule.decided_by is not DecidedBy.DEVICE
    for n, example in enumerate(rule.bad)
]
"""Without the examples of rules that need a GPU."""
GOOD = [pytest.param(rule, example, id=f"{rule.id}-{n}") for rule, n, example in list_good()]
"""Those that have their turn."""

BY_NUMBERS = {"LD012": {Attribution.LOSSY}, "LD016": {Attribution.FRESH, Attribution.LOSSY}}
"""The attributions of the outputs, for rules that compare numbers with program order."""


def findings_of(rule: Rule, example: Example, judge: Judge) -> list[Finding]:
    return [finding for finding in judge(example).findings if finding.rule == rule.id]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_has_bad_and_good_examples(rule: Rule) -> None:
    assert rule.bad
    assert rule.good


def test_an_argument_that_is_the_array_of_an_overwritten_one_is_read_as_the_kernel_left_it(judge: Judge) -> None:
    report = judge(ARRAY_PASSED_TWICE)
    assert report.outputs == {"sums": Verdict.FRESH, "total": Verdict.CLOBBERED}
    assert report.replay is not None
    assert report.replay.outputs["total"].attribution is Attribution.NEITHER


@pytest.mark.parametrize(("rule", "example"), BAD)
def test_a_bad_example_makes_its_rule_fire(rule: Rule, example: Example, judge: Judge) -> None:
    assert findings_of(rule, example, judge)


@pytest.mark.parametrize(("rule", "example"), GOOD)
def test_a_good_example_does_not_make_its_rule_fire(rule: Rule, example: Example, judge: Judge) -> None:
    assert not findings_of(rule, example, judge)


@pytest.mark.parametrize(("rule", "example"), GOOD)
def test_a_good_example_is_right_in_every_output(rule: Rule, example: Example, judge: Judge) -> None:
    assert set(judge(example).outputs.values()) == {Verdict.FRESH}


@pytest.mark.parametrize(("rule", "example"), BAD)
def test_a_finding_names_outputs_with_its_verdict(rule: Rule, example: Example, judge: Judge) -> None:
    outputs = judge(example).outputs
    verdict = Verdict.UNKNOWN if rule.leaves_undefined else rule.explains
    for finding in findings_of(rule, example, judge):
        if rule.id in BY_NUMBERS:
            replay = judge(example).replay
            assert replay is not None
            assert finding.outputs
            assert {replay.outputs[name].attribution for name in finding.outputs} <= BY_NUMBERS[rule.id]
        elif verdict is not None:
            assert {outputs[name] for name in finding.outputs} <= {verdict}
            assert finding.outputs or rule.kind is RuleKind.CHANGED_BY_JAX  # such a call may reach no output
        elif rule.decided_by is DecidedBy.SCHEDULE:
            assert finding.outputs == ()


@pytest.mark.parametrize(("rule", "example"), BAD)
def test_a_finding_names_a_line_of_the_example_and_the_kernel_in_it(rule: Rule, example: Example, judge: Judge) -> None:
    for finding in findings_of(rule, example, judge):
        if finding.source is None:
            # findings from numbers alone have no line, nor has an argument that nothing reads, and XLA does not record
            # the line of a `return`
            lacks_line = ("returns argument", "the function never reads")
            assert rule.check is check_nothing or any(words in finding.message for words in lacks_line)
            continue
        line = example.code.splitlines()[finding.source.line - 1]
        assert line.startswith(("    ", "CASE = Case("))  # the latter gives the arguments
        if finding.kernel:
            assert f"def {finding.kernel}(" in example.code


@pytest.mark.parametrize("name", ["LD001", "LD002", "LD003", "LD004", "LD005", "LD006", "LD008", "LD009"])
def test_a_hidden_write_is_reported_at_the_line_of_the_call_and_of_the_store(name: str, judge: Judge) -> None:
    rule = get_rule(name)
    lines = rule.bad[0].code.splitlines()
    (finding,) = findings_of(rule, rule.bad[0], judge)
    assert finding.source is not None
    assert "jt.triton_call(" in lines[finding.source.line - 1]
    assert finding.call is not None
    assert finding.call.stores
    assert all("tl.store(" in lines[store.line - 1] for store in finding.call.stores)


_WEIGHTS = (Severity.NOTE, Severity.WARNING, Severity.ERROR)


@pytest.mark.parametrize(("rule", "example"), BAD)
def test_a_finding_is_one_lower_case_line_with_evidence_and_a_remedy(
    rule: Rule, example: Example, judge: Judge
) -> None:
    for finding in findings_of(rule, example, judge):
        assert _WEIGHTS.index(finding.severity) <= _WEIGHTS.index(rule.severity)
        assert finding.evidence
        for text in (finding.message, finding.help):
            assert "\n" not in text
            assert not text.endswith(".")
            assert text[0] == "`" or text[0].islower()


def test_only_errors_make_an_output_wrong(judge: Judge) -> None:
    """If the bad example of a less severe rule is wrong, another rule must fire on it too."""
    for rule in RULES:
        for example in rule.bad:
            report = judge(example)
            if {Verdict.STALE, Verdict.CLOBBERED} & set(report.outputs.values()):
                assert any(finding.severity is Severity.ERROR for finding in report.findings)


def test_a_stale_read_reads_the_very_bytes_before_the_kernel_does(judge: Judge) -> None:
    rule = get_rule("LD001")
    (finding,) = findings_of(rule, rule.bad[0], judge)
    evidence = dict(finding.evidence)
    written, read = (int(re.findall(r"logical time (\d+)", evidence[label])[-1]) for label in ("write", "read"))
    assert read < written


@pytest.mark.parametrize(("rule", "example"), [*BAD, *GOOD])
def test_the_numbers_of_an_example_agree_with_its_schedule(rule: Rule, example: Example, judge: Judge) -> None:
    """Missing numbers do not count as agreement: an example is replayed unless its kernel cannot be analysed at all,
    has several configurations, or is Mosaic's.
    """
    report = judge(example)
    assert report.disagreements == ()
    assert report.replay is not None
    if (rule.id != "LD014" or example in rule.good) and not re.search("triton.autotune|mosaic_gpu", example.code):
        assert report.replay.state is ReplayState.DONE, report.replay.reason


@pytest.mark.parametrize(
    ("rule", "example"),
    [
        pytest.param(rule, example, id=f"{rule.id}-{n}")
        for rule in RULES
        if rule.kind in (RuleKind.EARLY_READ, RuleKind.COPY_READ, RuleKind.LATE_READ)
        for n, example in enumerate(rule.bad)
    ],
)
def test_a_wrong_output_of_an_error_is_wrong_in_numbers(rule: Rule, example: Example, judge: Judge) -> None:
    replay = judge(example).replay
    assert replay is not None
    for finding in findings_of(rule, example, judge):
        for name in finding.outputs:
            assert replay.outputs[name].attribution in (
                Attribution.STALE,
                Attribution.PARTLY_STALE,
                Attribution.NEITHER,
            )


@pytest.mark.parametrize("number", range(2))
def test_a_finding_gives_the_caller_s_loss_in_numbers(number: int, judge: Judge) -> None:
    """All of the argument's elements; and the second execution, which starts with the first one's contents."""
    rule = get_rule("LD009")
    (finding,) = findings_of(rule, rule.bad[number], judge)
    words = ("100% of the elements of `x` differ", "a second execution on the same constants differs")
    assert words[number] in dict(finding.evidence)["replay"]


def test_no_two_examples_share_an_id() -> None:
    codes = {example.code for rule in RULES for example in (*rule.bad, *rule.good)}
    names = Counter(code.split('name="')[1].split('"')[0] for code in codes)
    assert [name for name, count in names.items() if count > 1] == []
