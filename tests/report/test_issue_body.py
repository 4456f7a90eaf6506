"""The body of a bug report says only what was computed, in the words of those who get it, and no name acts as markup."""

import re
from dataclasses import replace

import pytest
from markdown_it import MarkdownIt

from ligerdiag.errors import InputError
from ligerdiag.model.findings import (
    Attribution,
    CallPlace,
    Finding,
    ReplayState,
    Severity,
    SourceLine,
    Suppression,
    SuppressionKind,
    Verdict,
    WorstElement,
)
from ligerdiag.model.report import CaseReport, Noun, Status
from ligerdiag.model.schedule_view import Place, ValueBytes
from ligerdiag.report.comparisons import Axis, BisectionRow
from ligerdiag.report.issue import (
    IssueFacts,
    IssueSubject,
    ProgramPart,
    ProgramSource,
    find_issue_subject,
    render_issue,
)
from ligerdiag.report.issue.hlo_excerpt import MOST_LINES, render_excerpt
from ligerdiag.report.issue.program_imports import list_imports, uses_in_functions
from ligerdiag.report.markdown import render_prose
from tests.report.bisection_samples import make_bisection
from tests.report.every_report import REPORTS
from tests.report.html.view_samples import make_accesses, make_view
from tests.report.samples import (
    make_case,
    make_device,
    make_finding,
    make_memory,
    make_numbers,
    make_refused,
    make_replay,
    make_report,
)

CALL = CallPlace(line=SourceLine(file="/home/me/train.py", line=41), target="triton_kernel_call", operands=2, outputs=1)
EVIL = "a|b\\|c`d``e<script>alert(1)</script>&amp; @ann #1 http://evil [x](http://evil) *z*\n\n</details>\n```\n# h\x1b[31m"
FACTS = IssueFacts(
    program=ProgramSource(name="train.py", text="import jax\n"), versions={"jax": "0.11.2", "python": "3.12.1"}
)
OUR_WORDS = ("stale", "clobbered", "latent", "hidden write", "fresh", "verdict", "provenance")


def make_stale(**changes: object) -> Finding:
    return make_finding(**{"rule": "LD001", "call": CALL, "outputs": ("input",), **changes})


def render(case: CaseReport, facts: IssueFacts = FACTS) -> str:
    return render_issue(find_issue_subject(make_report(case)), facts)


def section(text: str, title: str) -> str:
    return text.partition(f"\n## {title}\n")[2].partition("\n## ")[0].strip()


def test_a_report_has_its_sections_and_none_of_our_words() -> None:
    case = make_case(findings=(make_stale(),), replay=make_replay(), view=make_view())
    text = render(case, replace(FACTS, commands=("python train.py",)))
    titles = [line for line in text.splitlines() if line.startswith("#")]
    assert titles == [
        "# `ce_kernel` overwrites operand 0 without declaring it, and `input` is computed from the old contents",
        *("## Program", "## Expected and actual", "## Versions", "## HLO", "## What changes it", "## To reproduce"),
        "## To whom",
    ]
    said = text.lower().partition("found by ligerdiag")[0]
    assert [word for word in OUR_WORDS if word in said] == []


@pytest.mark.parametrize(
    ("changes", "title"),
    [
        ({"rule": "LD002"}, "and `input` is computed from the old contents"),
        ({"rule": "LD004", "outputs": ("loss", "bias")}, "and `loss` and `bias` are computed from the new contents"),
        ({"rule": "LD003"}, "and nothing forces the order that makes `input` right"),
        ({"rule": "LD006", "outputs": (), "severity": Severity.WARNING}, ""),
        ({"rule": "LD008", "outputs": (), "message": "`ce_kernel` runs twice"}, ": `ce_kernel` runs twice"),
        ({"severity": Severity.WARNING, "message": "`input` only tests it for NaN"}, ": `input` only tests it for NaN"),
    ],
)
def test_a_title_says_what_follows_from_an_undeclared_write(changes: dict[str, object], title: str) -> None:
    text = render(make_case(findings=(make_stale(**changes),)))
    start = "# `ce_kernel` overwrites operand 0 without declaring it"
    assert text.splitlines()[0] == f"{start}{', ' if title.startswith('and') else ''}{title}"
    assert "To the author of the code that calls the kernel `ce_kernel`." in text


def test_a_title_says_only_once_that_the_kernel_overwrites_something() -> None:
    finding = make_stale(rule="LD009", outputs=(), message="`ce_kernel` overwrites a constant")
    assert render(make_case(findings=(finding,))).splitlines()[0] == "# `ce_kernel` overwrites a constant"


@pytest.mark.parametrize("name", REPORTS)
def test_a_report_of_every_kind_is_either_one_bug_or_says_why_not(name: str) -> None:
    try:
        subject = find_issue_subject(REPORTS[name])
    except InputError as refused:
        said, expected = str(refused), ("there is nothing to report: ", "a bug report is about one case")
    else:
        said, expected = render_issue(subject, FACTS), ("# ",)
        assert "\n## To whom\n" in said
    assert said.startswith(expected)


def test_an_output_whose_name_is_a_number_is_called_an_output() -> None:
    outputs = {"0": Verdict.LATENT, "1": Verdict.LATENT, "2.loss": Verdict.STALE}
    title = render(make_case(findings=(make_stale(rule="LD003", outputs=("0",)),), outputs=outputs)).splitlines()[0]
    assert title.endswith(", and nothing forces the order that makes output `0` right")
    finding = make_finding(
        rule="LD021", message="`1` and `2.loss` read the argument `0` of output `1`", outputs=("1", "2.loss")
    )
    text = render(make_case(findings=(finding,), outputs=outputs))
    assert "utputs `1` and `2.loss` read the argument `0` of output `1`" in text
    passes = make_bisection(axis=Axis.PASSES, answers=("`1` is stale: `p` (0081) chooses the wrong order",))
    text = render(make_case(findings=(finding,), outputs=outputs), replace(FACTS, bisections=(passes,)))
    assert "- XLA's passes: output `1` is wrong: `p`" in text


ASSERTIONS = {
    "should fail on a GPU:": make_replay({"input": make_numbers(Attribution.STALE)}),
    "In this schedule both have the same values: on a GPU it fails only if the order is another one there:": (
        make_replay({"input": make_numbers()})
    ),
    "No output is known to be wrong in this schedule: on a GPU it fails": make_refused(ReplayState.TOO_LARGE, ""),
}


@pytest.mark.parametrize("said", ASSERTIONS)
def test_a_reduced_program_promises_a_failure_only_if_an_output_is_wrong(said: str) -> None:
    program = ProgramSource(name="small.py", text="import jax\n", is_standalone=True)
    case = make_case(findings=(make_stale(rule="LD003"),), outputs={"input": Verdict.LATENT}, replay=ASSERTIONS[said])
    assert said in section(render(case, replace(FACTS, program=program)), "Program")


@pytest.mark.parametrize(
    ("finding", "whom"),
    [
        (make_stale(rule="LD022", call=replace(CALL, is_declared=True)), "XLA (openxla/xla)."),
        (make_stale(rule="LD005", call=replace(CALL, is_declared=True)), "XLA (openxla/xla)."),
        (make_stale(rule="LD005"), "the author of the code that calls the kernel `ce_kernel`."),
        (make_finding(rule="LD024", kernel=""), "XLA (openxla/xla)."),
        (make_finding(rule="LD027", kernel="", outputs=()), "XLA (openxla/xla)."),
        (make_finding(rule="LD021", kernel=""), "JAX (jax-ml/jax)."),
        (make_finding(rule="LD023"), "JAX (jax-ml/jax)."),
        (make_finding(rule="LD013"), "the author of the kernel `ce_kernel`."),
        (make_finding(rule="LD016", kernel=""), "the author of the program."),
        (
            make_stale(call=replace(CALL, line=SourceLine(file="/x/jax_triton/lib.py", line=1))),
            "jax-triton (jax-ml/jax-triton).",
        ),
    ],
)
def test_a_report_goes_to_the_party_that_can_mend_it(finding: Finding, whom: str) -> None:
    assert section(render(make_case(findings=(finding,))), "To whom").startswith(f"To {whom}")


def test_numbers_come_from_where_the_text_says() -> None:
    worst = WorstElement(dtype="bfloat16", shape=(2, 3), index=(1, 2), intended=0.5, actual=float("nan"))
    replay = make_replay({"loss": make_numbers(), "input": make_numbers(Attribution.STALE, worst=worst)})
    case = make_case(findings=(make_stale(),), replay=replay, device=make_device())
    said = section(render(case), "Expected and actual")
    assert "| `input` | `bfloat16[2,3]` | [1, 2] | 0.5 | NaN | 1.2e+04 | 1e-05 |" in said
    assert "`loss`" not in said
    assert "Both were computed on the CPU, not on a GPU, for the arguments" in said
    assert "Run on 1 `NVIDIA H200`" in said
    versions = section(render(case, replace(FACTS, driver="580.159.04")), "Versions")
    assert "\nran on 1 NVIDIA H200, driver 580.159.04\n" in versions
    assert "| `input` | 1.3e+04 | 0.0001 |" in said


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "No numbers: nothing was executed"),
        ({"replay": make_refused(ReplayState.TOO_LARGE, "")}, "No values from the CPU: too large."),
        (
            {"replay": make_replay({"input": make_numbers(Attribution.UNDECIDED)})},
            "The numbers of this run decide nothing",
        ),
        ({"replay": make_replay({"input": make_numbers()})}, "the outputs have the expected values"),
    ],
)
def test_what_was_not_computed_is_not_claimed(changes: dict[str, object], said: str) -> None:
    text = section(render(make_case(findings=(make_stale(),), **changes)), "Expected and actual")
    assert said in text
    assert "from the schedule alone" in text
    assert "Nothing was run on a GPU for this report." in text
    assert "|" not in text


def test_a_change_of_the_caller_s_argument_is_told_in_numbers() -> None:
    finding = make_stale(rule="LD009", outputs=(), message="`ce_kernel` overwrites the caller's argument `x`")
    replay = make_replay({"loss": make_numbers()}, changed_inputs={"x": 0.5}, second_run={"loss": 0.25})
    said = section(render(make_case(findings=(finding,), replay=replay)), "Expected and actual")
    assert "50% of the argument `x` changed; `loss` has another value in a second execution" in said
    assert "expected values" not in said


def test_a_dump_is_not_said_to_have_our_versions() -> None:
    facts = IssueFacts(program=None, versions={}, is_ours=False)
    text = render(make_case(findings=(make_stale(),)), facts)
    assert "a dump of another compile, for h100; its versions and flags are not in it" in section(text, "Versions")
    assert "from a description" not in text
    assert "## To reproduce" not in text


def test_values_that_nobody_defines_are_never_called_right() -> None:
    finding = make_finding(rule="LD013", message="`k` leaves 3 of 8 elements of its output 0 unwritten")
    case = make_case(findings=(finding,), replay=make_replay({"bias": make_numbers()}), memory=make_memory())
    said = section(render(case), "Expected and actual")
    assert "`k` leaves 3 of 8 elements of its output 0 unwritten. Expected: this does not happen." in said
    assert "expected values" not in said


def test_an_error_of_xla_is_reported_with_the_end_of_its_log() -> None:
    case = make_case(
        status=Status.ERROR,
        error="was aborted by signal 6",
        error_exit_code=3,
        log_tail="F1 /home/me/a.py:1\nF2",
        outputs={},
    )
    text = render(case)
    assert text.startswith("# Compiling for h100 ends with an error: was aborted by signal 6\n")
    assert "```text\nF1 a.py:1\nF2\n```" in text
    assert "## HLO" not in text


ALLOWED = Suppression(kind=SuppressionKind.CONFIG, reason="r", where="w")


@pytest.mark.parametrize(
    ("case", "said"),
    [
        (
            make_case(findings=(make_stale(suppressed=ALLOWED),)),
            "every finding of `flce[hidden]` on h100 is allowed (LD001)",
        ),
        (make_case(findings=(make_finding(rule="LD014"),)), "has only findings that are not bugs (LD014)"),
        (make_case(findings=(make_finding(rule="LD015"),)), "has only findings that are not bugs (LD015)"),
        (
            make_case(status=Status.ERROR, error="no such axis", error_exit_code=2),
            "could not be analysed: no such axis",
        ),
    ],
)
def test_what_is_no_bug_is_not_reported(case: CaseReport, said: str) -> None:
    with pytest.raises(InputError, match=r"^there is nothing to report: ") as refused:
        find_issue_subject(make_report(case))
    assert said in str(refused.value)


def test_a_dump_without_a_kernel_is_refused_with_what_it_has() -> None:
    note = "nothing to check: 1 module, it has no in-place kernel (1 without custom calls)"
    dump = replace(make_report(), noun=Noun.MODULE, notes=(note,))
    with pytest.raises(InputError) as refused:
        find_issue_subject(dump)
    assert str(refused.value) == f"there is nothing to report: {note}"


def test_the_gravest_finding_is_reported_unless_a_rule_is_asked_for() -> None:
    findings = (make_stale(rule="LD003", severity=Severity.WARNING, outputs=("weight",), operand=1), make_stale())
    for order in (findings, findings[::-1]):
        report = make_report(make_case(findings=order))
        found = [find_issue_subject(report, rule).finding for rule in ("", "LD003", "LD020")]
        assert [None if one is None else one.rule for one in found] == ["LD001", "LD003", "LD001"]


def test_what_changes_the_result_is_about_the_outputs_of_the_finding() -> None:
    rows = (
        BisectionRow(label="default", outputs={"input": Verdict.STALE, "bias": Verdict.STALE}),
        BisectionRow(label="a=1", outputs={"input": Verdict.FRESH, "bias": Verdict.STALE}),
        BisectionRow(label="b=1", outputs={"input": Verdict.STALE, "bias": Verdict.FRESH}),
        BisectionRow(label="c=1", error="the worker died"),
    )
    passes = make_bisection(axis=Axis.PASSES, answers=("`stale` is stale: `p` (0081) chooses the wrong order",))
    facts = replace(FACTS, bisections=(make_bisection(axis=Axis.FLAGS, rows=rows), passes))
    said = section(render(make_case(findings=(make_stale(),)), facts), "What changes it")
    assert said.splitlines() == [
        "- XLA's flags: wrong without any flag; right with `a=1`; wrong with `b=1`; not compiled with `c=1`.",
        "- XLA's passes: `stale` is wrong: `p` (0081) chooses the wrong order.",
        "",
        "Not tried: other GPUs and other versions.",
    ]


def test_no_name_is_markup_and_no_path_is_shown() -> None:
    finding = make_stale(
        message=EVIL, kernel=EVIL, outputs=(EVIL,), evidence=((EVIL, EVIL),), help=EVIL, call=replace(CALL, target=EVIL)
    )
    worst = WorstElement(dtype="float32", shape=(1,), index=(0,), intended=1.0, actual=2.0)
    view = make_view(text=("%e {", f"  %triton_kernel_call.2 = {EVIL}", f"  %b = {EVIL}", "}"))
    case = make_case(
        findings=(finding,),
        target=EVIL,
        outputs={EVIL: Verdict.STALE},
        replay=make_replay({EVIL: make_numbers(Attribution.STALE, worst=worst)}),
        device=make_device(error=EVIL),
        view=view,
    )
    program = ProgramSource(name=EVIL, text=f'"""\n{EVIL}\n```\n</details>\n"""\n' + "x = 1\n" * 70, others=(EVIL,))
    facts = replace(
        FACTS,
        program=program,
        versions={EVIL: EVIL},
        xla_flags=EVIL,
        attached=(EVIL,),
        commands=(EVIL,),
        bisections=(make_bisection(axis=Axis.PASSES, answers=(EVIL,)), make_bisection(axis=Axis.FLAGS)),
    )
    for rule in ("LD001", "LD008", "LD013", "LD022", "LD023", "LD027"):
        subject = IssueSubject(case=case, finding=replace(finding, rule=rule))
        text = render_issue(subject, facts)
        html = MarkdownIt("commonmark").enable("table").render(text)
        words = re.sub(r"<pre>.*?</pre>|<code>.*?</code>", "", html, flags=re.DOTALL)
        assert words.count("<a ") == words.count("ligerdiag.github.io") == 1  # the rule's page
        assert words.count("<details>") == words.count("</details>") == 1
        assert words.count("<h1>") == 1
        for markup in ("script", "@ann", "evil", "<em>z", "\x1b", "/home"):
            assert markup not in words, (rule, markup)


def test_parts_of_files_stand_in_place_of_a_long_file() -> None:
    parts = (ProgramPart(name="a/train.py", text="x = 1\n"), ProgramPart(name="a/norm.py", text="y = 2\n" * 61))
    program = ProgramSource(name="a/train.py", text="import jax\n" * 500, parts=parts)
    text = section(render(make_case(findings=(make_stale(),)), replace(FACTS, program=program)), "Program")
    assert text.startswith("What the program runs of `a/train.py` and 1 other file of the project (`ligerdiag reduce`")
    assert (
        "```python\n# a/train.py\nx = 1\n```\n\n<details><summary>61 lines</summary>\n\n```python\n# a/norm.py" in text
    )
    endless = replace(program, parts=(*parts, ProgramPart(name="b.py", text="z = 3\n" * 400)))
    text = section(render(make_case(findings=(make_stale(),)), replace(FACTS, program=endless)), "Program")
    assert text == "`a/train.py` has 500 lines: attach the file, or reduce it with `ligerdiag reduce`."


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("`a` reads %b.1 (/home/me/x/train.py:3)", "`a` reads `%b.1` (`train.py:3`)"),
        ("output {1} of %c, at time 4", "output `{1}` of `%c`, at time 4"),
        ("%a.1{0} and %b_", "`%a.1{0}` and `%b_`"),
        ("a `b` *c*", "``a `b` *c*``"),
        ("see http://evil", "`see http://evil`"),
        ("@ann", "`@ann`"),
        ("a ` b", "``a ` b``"),
    ],
)
def test_only_plain_words_stand_outside_of_code(text: str, said: str) -> None:
    assert render_prose(text) == said


def test_an_excerpt_has_the_named_lines_their_bytes_and_no_more_than_fit() -> None:
    lines = [f"  %fusion.{number} = f32[8]{{0}} fusion(%p), calls=%fused.{number}" for number in range(60)]
    text = (
        "%fused.3 (p: f32[8]) -> f32[8] {",
        "  ROOT %n = f32[8]{0} negate(%p)",
        "}",
        "ENTRY %main () -> f32[8] {",
        *lines,
        "}",
    )
    places = {"fusion.3": (ValueBytes(index="", allocation=7, offset=256, size=32),)}
    view = make_view(text=text, places=places, accesses=(), outputs=())
    finding = make_finding(instructions=("fusion.3", "fusion.40"), evidence=(("read", "%fusion.9 reads %gone."),))
    excerpt = render_excerpt(view, finding)
    assert excerpt == (
        "%fused.3 (p: f32[8]) -> f32[8] {",
        "  ROOT %n = f32[8]{0} negate(%p)",
        "}",
        "ENTRY %main () -> f32[8] {",
        "  ...",
        f"{lines[3]}  // allocation 7, offset 256, size 32",
        "  ...",
        lines[9],
        "  ...",
        lines[40],
        "  ...",
        "}",
    )
    many = make_finding(instructions=tuple(f"fusion.{number}" for number in range(0, 60, 2)))
    assert len(render_excerpt(view, many)) <= MOST_LINES
    assert render_excerpt(make_view(), make_finding(instructions=("gone",), evidence=())) == ()


def test_an_excerpt_says_which_instruction_computes_the_value_and_which_reads_it() -> None:
    accesses = tuple(
        replace(make_accesses((6,))[0], step=step, place=place)
        for step, place in ((3, Place.RECOMPUTED), (6, Place.SAME_BYTES), (12, Place.RECOMPUTED))
    )
    view = make_view(accesses=(*make_accesses((3, 7)), *accesses))
    names = tuple(step.name.removeprefix("%") for step in view.steps if step.id in (6, 12))
    lines = render_excerpt(view, make_finding(instructions=names, evidence=()))
    assert [line.partition("  // ")[2] for line in lines if "  // " in line] == [
        "the value that is overwritten; COMPUTES A RESULT FROM THE OLD CONTENTS",
        "READS THE OLD CONTENTS",
        "OVERWRITES OPERAND 0",
        "COMPUTES THE OLD CONTENTS AGAIN",
    ]


@pytest.mark.parametrize(
    ("code", "uses"),
    [
        ("from ligerdiag import Case\ndef f(x): return x\nCASE = Case(f)", False),
        ("from ligerdiag.in_place import call_in_place as c\ndef f(x): return c(x)", True),
        ("import ligerdiag.in_place\ndef f(x): return ligerdiag.in_place.call_in_place(x)", True),
        ("def f(x):\n    from ligerdiag import in_place\n    return in_place(x)", True),
        ("import ligerdiagnosis\ndef f(x): return ligerdiagnosis.g(x)", False),
        ("def f(", True),
    ],
)
def test_a_program_that_uses_ligerdiag_in_a_function_is_known(code: str, uses: bool) -> None:
    assert uses_in_functions(code, "ligerdiag") is uses


def test_imports_anywhere_are_listed_once() -> None:
    text = "import a.b, c\nfrom d.e import f\nfrom . import g\nfrom ..i.j import k\ndef h():\n    import a"
    assert sorted(list_imports(text)) == ["..i", ".g", "a", "c", "d"]
