"""The examples of each rule are its tests: compiled and replayed for real, judged as a user's own file is."""

import re
from collections import Counter

import pytest

from ligerdiag.model.findings import Attribution, Finding, ReplayState, Severity, Verdict
from ligerdiag.rules.registry import RULES, get_rule
from ligerdiag.rules.rule import DecidedBy, Example, Rule
from tests.hazards.conftest import Judge

BAD = [
    pytest.param(rule, example, id=f"{rule.id}-{n}")
    for rule in RULES
    if rule.decided_by is not DecidedBy.DEVICE
    for n, example in enumerate(rule.bad)
]
"""Without those of a rule that takes a GPU."""
GOOD = [pytest.param(rule, example, id=f"{rule.id}-{n}") for rule in RULES for n, example in enumerate(rule.good)]

CONSEQUENCES = {
    "LD021": Verdict.UNKNOWN,
    "LD001": Verdict.STALE,
    "LD002": Verdict.STALE,
    "LD003": Verdict.LATENT,
    "LD004": Verdict.CLOBBERED,
    "LD005": Verdict.UNKNOWN,
    "LD014": Verdict.UNKNOWN,
    "LD022": Verdict.STALE,
    "LD023": Verdict.STALE,
    "LD024": Verdict.CLOBBERED,
    "LD011": Verdict.UNKNOWN,
    "LD013": Verdict.UNKNOWN,
    "LD019": Verdict.UNKNOWN,
    "LD025": Verdict.UNKNOWN,
}
"""The verdict that a rule gives its outputs."""

BY_NUMBERS = {"LD012": {Attribution.LOSSY}, "LD016": {Attribution.FRESH, Attribution.LOSSY}}
"""The attributions of a rule's outputs, compared with program order. The other rules report a call, not an output."""


def findings_of(rule: Rule, example: Example, judge: Judge) -> list[Finding]:
    return [finding for finding in judge(example).findings if finding.rule == rule.id]


WITHOUT_A_KERNEL = {"LD021", "LD023", "LD024"}
WITHOUT_A_LINE = {"LD016"}
"""Rules whose findings come from numbers alone: an output, and no line."""


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_shows_what_it_flags_and_what_it_does_not(rule: Rule) -> None:
    assert rule.bad
    assert rule.good


@pytest.mark.parametrize(("rule", "example"), BAD)
def test_a_bad_example_makes_its_rule_fire(rule: Rule, example: Example, judge: Judge) -> None:
    assert findings_of(rule, example, judge)


@pytest.mark.parametrize(("rule", "example"), GOOD)
def test_a_good_example_does_not(rule: Rule, example: Example, judge: Judge) -> None:
    assert not findings_of(rule, example, judge)


@pytest.mark.parametrize(("rule", "example"), GOOD)
def test_a_good_example_is_right_in_every_output(rule: Rule, example: Example, judge: Judge) -> None:
    assert set(judge(example).outputs.values()) == {Verdict.FRESH}


@pytest.mark.parametrize(("rule", "example"), BAD)
def test_a_finding_names_outputs_that_have_its_verdict(rule: Rule, example: Example, judge: Judge) -> None:
    outputs = judge(example).outputs
    for finding in findings_of(rule, example, judge):
        if rule.id in CONSEQUENCES:
            assert finding.outputs
            assert {outputs[name] for name in finding.outputs} == {CONSEQUENCES[rule.id]}
        elif rule.id in BY_NUMBERS:
            replay = judge(example).replay
            assert replay is not None
            assert finding.outputs
            assert {replay.outputs[name].attribution for name in finding.outputs} <= BY_NUMBERS[rule.id]
        elif rule.id == "LD026":
            assert finding.outputs == ("y",)  # which is the value that the program says, and lacks a half
        elif rule.id == "LD015":
            assert finding.outputs == ("back",)  # whose verdict is not the recorded one
        else:
            assert finding.outputs == ()


@pytest.mark.parametrize(("rule", "example"), BAD)
def test_a_finding_names_a_line_of_the_example_and_the_kernel_in_it(rule: Rule, example: Example, judge: Judge) -> None:
    for finding in findings_of(rule, example, judge):
        if rule.id in WITHOUT_A_LINE:
            assert finding.source is None
            continue
        assert finding.source is not None
        assert example.code.splitlines()[finding.source.line - 1].startswith("    ")
        if rule.id not in WITHOUT_A_KERNEL:
            assert f"def {finding.kernel}(" in example.code


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("LD001", "return total + sums.sum(), h @ w.T"),
        ("LD002", "h.astype(jnp.bfloat16) @ w.T"),
        ("LD003", "h.sum(0)"),
        ("LD004", "two = sum_and_double(second"),
        ("LD005", "everyone = jax.lax.all_gather(h"),
        ("LD006", "return jt.triton_call("),
        ("LD007", "jt.triton_call(h, kernel=scale_kernel"),
        ("LD008", "return jt.triton_call(x, kernel=negate_kernel"),
        ("LD009", "return jt.triton_call("),
        ("LD010", "return jt.triton_call(x, kernel=tuned_kernel"),
        ("LD011", "(backwards,) = call_in_place("),
        ("LD012", "h = h - large"),
        ("LD013", "copy = jt.triton_call(x, kernel=copy_kernel"),
        ("LD014", "jt.triton_call(h, kernel=forging_kernel"),
        ("LD021", "start = jnp.tanh(value)"),
        ("LD022", "plus = plgpu.kernel(double_kernel"),
        ("LD024", "return jnp.concatenate([v[PIECE * i + LOW"),
        ("LD025", 'return {"total": jt.triton_call(x, kernel=total_kernel'),
        ("LD015", "h @ w.T  # h is meant to be doubled by now"),
    ],
)
def test_the_line_is_the_one_that_reads_or_calls(name: str, line: str, judge: Judge) -> None:
    rule = get_rule(name)
    (finding,) = findings_of(rule, rule.bad[0], judge)
    place = finding.source if finding.reader is None else finding.reader.line
    assert place is not None
    assert line in rule.bad[0].code.splitlines()[place.line - 1]


@pytest.mark.parametrize("name", ["LD001", "LD002", "LD003", "LD004", "LD005", "LD006", "LD008", "LD009"])
def test_a_hidden_write_is_found_at_the_line_that_calls_the_kernel_and_at_that_of_its_store(
    name: str, judge: Judge
) -> None:
    rule = get_rule(name)
    lines = rule.bad[0].code.splitlines()
    (finding,) = findings_of(rule, rule.bad[0], judge)
    assert finding.source is not None
    assert "jt.triton_call(" in lines[finding.source.line - 1]
    assert finding.call is not None
    assert finding.call.stores
    assert all("tl.store(" in lines[store.line - 1] for store in finding.call.stores)


@pytest.mark.parametrize(("rule", "example"), BAD)
def test_a_finding_is_one_lower_case_line_with_evidence_and_a_remedy(
    rule: Rule, example: Example, judge: Judge
) -> None:
    for finding in findings_of(rule, example, judge):
        assert finding.severity is rule.severity
        assert finding.evidence
        for text in (finding.message, finding.help):
            assert "\n" not in text
            assert not text.endswith(".")
            assert text[0] == "`" or text[0].islower()


def test_only_errors_make_an_output_wrong(judge: Judge) -> None:
    """A rule of lesser weight whose bad example is wrong must not be the only one that fires on it."""
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
def test_the_numbers_of_an_example_say_the_same_as_its_schedule(rule: Rule, example: Example, judge: Judge) -> None:
    """Numbers that cannot be had are no agreement: an example is replayed, unless its kernel cannot be analysed at all, has
    several configurations, or is Mosaic's."""
    report = judge(example)
    assert report.disagreements == ()
    assert report.replay is not None
    if (rule.id != "LD014" or example in rule.good) and not re.search("triton.autotune|mosaic_gpu", example.code):
        assert report.replay.state is ReplayState.DONE, report.replay.reason


@pytest.mark.parametrize(
    ("rule", "example"), [parameters for parameters in BAD if parameters.values[0].id in ("LD001", "LD002", "LD004")]
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
def test_what_the_caller_loses_is_told_in_numbers(number: int, judge: Judge) -> None:
    """The argument's elements, all of them; and the second execution, which starts from what the first has left."""
    rule = get_rule("LD009")
    (finding,) = findings_of(rule, rule.bad[number], judge)
    words = ("100% of the elements of `x` differ", "a second execution on the same constants differs")
    assert words[number] in dict(finding.evidence)["replay"]


def test_no_two_examples_have_one_id() -> None:
    codes = {example.code for rule in RULES for example in (*rule.bad, *rule.good)}
    names = Counter(code.split('name="')[1].split('"')[0] for code in codes)
    assert [name for name, count in names.items() if count > 1] == []
