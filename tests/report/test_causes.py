"""Which findings count as one cause."""

from dataclasses import replace

from ligerdiag.model.findings import CallPlace, Finding, ReadPlace, Severity, SourceLine, Suppression, SuppressionKind
from ligerdiag.report.causes import compute_causes, list_calls, list_causes, list_reads, list_rules
from tests.report.samples import make_case, make_finding

CALL = SourceLine(file="kernels.py", line=7)
OUTPUTS = ("loss", "input", "weight", "bias")


def found(
    rule: str = "LD001", *, number: int = 0, line: int = 41, call: SourceLine = CALL, **changes: object
) -> Finding:
    place = CallPlace(line=call, number=number, callers=(SourceLine(file="model.py", line=40 + number % 2),))
    reader = None if rule == "LD006" else ReadPlace(line=SourceLine(file="model.py", line=line), in_backward=True)
    severity = {"LD003": Severity.WARNING, "LD006": Severity.WARNING}.get(rule, Severity.ERROR)
    return make_finding(
        rule=rule,
        severity=severity,
        source=call,
        call=place,
        reader=reader,
        **{"message": f"{rule} at %read.{number}", "outputs": () if rule == "LD006" else ("bias",), **changes},
    )


def test_one_line_with_one_kind_of_error_is_one_cause_for_all_rules_and_layers() -> None:
    findings = [found(rule, number=n) for n in range(8) for rule in ("LD002", "LD001", "LD003", "LD006")]
    (cause,) = compute_causes(findings, OUTPUTS)
    assert cause.rule == "LD001"
    assert list_rules(cause) == ("LD001", "LD002", "LD003", "LD006")
    assert len(list_calls(cause)) == 8
    assert cause.message == "`bias` does not see what `ce_kernel` writes to operand 0"
    assert sorted(map(id, cause.parts)) == sorted(map(id, findings))


def test_other_lines_kernels_and_operands_are_other_causes() -> None:
    other_line = found(call=replace(CALL, line=8))
    findings = [found(), other_line, found(kernel="other"), found(operand=1)]
    assert len(compute_causes(findings, OUTPUTS)) == 4


def test_the_function_of_a_line_does_not_distinguish_calls() -> None:
    assert len(compute_causes([found(), found(call=replace(CALL, function="f"))], OUTPUTS)) == 1


def test_seeing_too_much_and_seeing_too_little_are_different_causes() -> None:
    causes = compute_causes([found("LD004"), found("LD006"), found("LD001")], OUTPUTS)
    assert [list_rules(cause) for cause in causes] == [("LD004",), ("LD001", "LD006")]


def test_an_undeclared_write_without_wrong_reads_is_a_cause_by_itself() -> None:
    (cause,) = compute_causes([found("LD006")], OUTPUTS)
    assert cause == found("LD006")


def test_a_cause_of_one_finding_is_that_finding() -> None:
    (cause,) = compute_causes([found()], OUTPUTS)
    assert cause == found()


def test_a_message_of_latent_reads_alone_does_not_claim_wrong_numbers() -> None:
    (cause,) = compute_causes([found("LD003"), found("LD003", number=1)], OUTPUTS)
    assert cause.severity is Severity.WARNING
    assert "right by luck" in cause.message


def test_outputs_that_are_right_by_luck_are_not_among_the_wrong_ones() -> None:
    (cause,) = compute_causes([found(), found("LD002", number=1), found("LD003", outputs=("weight",))], OUTPUTS)
    assert cause.outputs == ("bias",)
    assert (
        "note",
        "LD003 latent-order: LD003 at %read.0 (model.py:41, in the backward pass of this line)",
    ) in cause.evidence


def test_readers_on_one_line_are_one_line_with_their_number() -> None:
    findings = [found(number=n, line=41 + n // 4, evidence=(("read", f"%read.{n} reads too early"),)) for n in range(8)]
    (cause,) = compute_causes(findings, OUTPUTS)
    assert [len(parts) for parts in list_reads(cause).values()] == [4, 4]
    reads = [text for label, text in cause.evidence if label == "read"]
    assert len(reads) == 2
    assert all(text.endswith("; 3 more reads there") for text in reads)


def test_readers_around_several_calls_are_kept_for_each_without_a_program() -> None:
    evidence = [
        (("kernel", "stores"), ("before", f"%early.{n} reads"), ("after", f"%late.{n} reads")) for n in range(2)
    ]
    (cause,) = compute_causes([found("LD006", number=n, evidence=evidence[n]) for n in range(2)], OUTPUTS)
    said = [text for label, text in cause.evidence if label in ("before", "after")]
    assert sorted(said) == ["%early.0 reads", "%early.1 reads", "%late.0 reads", "%late.1 reads"]


def test_layers_are_named_only_if_the_outputs_have_them() -> None:
    findings = [found(number=2 * n) for n in range(3)]
    layered = [f"params.layers.{n}.w" for n in range(3)]
    (cause,) = compute_causes(findings, layered)
    assert dict(cause.evidence)["calls"].startswith("3, in 3 layers, ")
    (cause,) = compute_causes(findings, OUTPUTS)
    assert dict(cause.evidence)["calls"].startswith("3, from ")


def test_allowed_findings_and_others_are_never_one_cause() -> None:
    allowed = Suppression(kind=SuppressionKind.CONFIG, reason="known", where="pyproject.toml")
    case = make_case(findings=(found(), found(number=1, suppressed=allowed)))
    (cause,) = list_causes(case)
    assert cause == found()
    assert len(compute_causes(case.findings, OUTPUTS)) == 2


def test_equal_messages_about_one_line_are_one_cause_and_others_are_not() -> None:
    place = SourceLine(file="train.py", line=3)
    findings = [
        make_finding(rule="LD007", source=place, message=f"`k` at %call.{n} is dropped", outputs=()) for n in range(8)
    ]
    other = make_finding(rule="LD007", source=place, message="`k` is dropped for another reason", outputs=())
    assert len(compute_causes([*findings, other], OUTPUTS)) == 2


def test_findings_without_a_place_are_not_mixed() -> None:
    one = make_finding(source=None, message="operand 0 of %a", instructions=("a",))
    assert len(compute_causes([one, replace(one, instructions=("b",))], OUTPUTS)) == 2


def test_many_outputs_are_counted_in_the_message_and_folded_below() -> None:
    outputs = (*(f"params.layers.{n}.w" for n in range(28)), "loss", "step")
    message = f"{', '.join(f'`{name}`' for name in outputs[:27])} and `{outputs[27]}` are computed from `%a`"
    (cause,) = compute_causes([found(outputs=outputs[:28], message=message)], outputs)
    assert cause.message == "28 of 30 outputs are computed from `%a`"
    assert cause.evidence[0] == ("outputs", "`params.*`")
