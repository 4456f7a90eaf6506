"""Numbers of replays and devices on a terminal."""

import json
from dataclasses import replace

import jsonschema
import pytest

from ligerdiag.model.findings import Attribution, CutLoop, OutputNumbers, ReplayState, SourceLine, Verdict
from ligerdiag.model.report import Disagreement, Status
from ligerdiag.report.agreement import compute_disagreements
from ligerdiag.report.json import render_json
from ligerdiag.report.relative_errors import render_error, summarise_numbers
from ligerdiag.report.terminal.diagnostics import render_agreement_word
from ligerdiag.report.terminal.full_report import render_terminal
from ligerdiag.report.terminal.spans import compute_text
from tests.report.samples import (
    AGREEING,
    OUTPUTS,
    make_case,
    make_device,
    make_finding,
    make_numbers,
    make_refused,
    make_replay,
    make_report,
)
from tools.json_schema import load_schema

LOSSY = make_replay({**AGREEING, "weight": make_numbers(Attribution.LOSSY)})
FRESH_INPUT = make_replay({**AGREEING, "input": make_numbers()})
TOO_LARGE = make_refused(
    ReplayState.TOO_LARGE, "estimated 42 s and 6 GiB, more than 10 s or 4 GiB: `--full` replays it"
)
DISAGREEMENTS = compute_disagreements(OUTPUTS, (make_finding(outputs=("input",)),), FRESH_INPUT, None)


def _forget_rules(one: Disagreement) -> Disagreement:
    """Leaves out the rules that look for causes, whose number grows."""
    evidence = tuple((label, "…" if label in CAUSES else text) for label, text in one.evidence)
    return replace(one, evidence=evidence, help="one of the causes that are left is a fact")


CAUSES = ("JAX", "XLA", "kernel", "ligerdiag")
REPLAYED = make_report(
    make_case("flce[hidden]", replay=make_replay(), findings=(make_finding(),)),
    make_case("flce[trivial]", replay=LOSSY),
    make_case("seed[False-float32-True-4-2048-50304-1024]", replay=TOO_LARGE),
    make_case("conv", replay=make_refused(ReplayState.NOT_COVERED, "convolution")),
    make_case("boom", replay=make_refused(ReplayState.FAILED, "the worker was aborted")),
    make_case(
        "bad",
        Status.DISAGREEMENT,
        replay=FRESH_INPUT,
        disagreements=tuple(map(_forget_rules, DISAGREEMENTS)),
        findings=(),
    ),
)
AT_EIGHTY = """\
flce[hidden]                                as expected
    loss fresh · input STALE · weight latent · bias clobbered  replay agrees
flce[trivial]                               as expected
    loss fresh · input STALE · weight latent · bias clobbered  replay lossy 0.25

seed[False-float32-True-4-2048-50304-1024]  as expected
    loss fresh · input STALE · weight latent · bias clobbered  replay too large

conv                                        as expected
    loss fresh · input STALE · weight latent · bias clobbered
      replay not covered

boom                                        as expected
    loss fresh · input STALE · weight latent · bias clobbered  replay failed

bad                                         DISAGREEMENT
    loss fresh · input STALE · weight latent · bias clobbered  replay DISAGREES

findings in cases that are as expected

error[LD002]: gradient of `bias` reads a copy of the logits that `ce_kernel`
    overwrote elsewhere
  --> train.py:41
   write:  %triton_kernel_call.2 overwrites operand 0, %transpose, at logical
           time 14
   read:   %input_reduce_fusion reads %loop_add_fusion at logical time 22
   replay: relative error 2, and 3 from the stale prediction
   help:   return the gradient as a declared output
   in:     flce[hidden]

the other cases

disagreement: `bad` on h100: `input` is stale according to its schedule, but
    fresh when it is replayed
   static:    stale
   finding:   LD002: gradient of `bias` reads a copy of the logits that
              `ce_kernel` overwrote elsewhere
   write:     %triton_kernel_call.2 overwrites operand 0, %transpose, at logical
              time 14
   read:      %input_reduce_fusion reads %loop_add_fusion at logical time 22
   replay:    fresh: relative error 3e-07, tolerance 1e-05, the stale prediction
              1.2e+04 away
   JAX:       …
   XLA:       …
   kernel:    …
   ligerdiag: …
   help:      one of the causes that are left is a fact

covered: 720 instructions in 6 compiled modules, 6 kernel or library calls, 6
    writes hidden from XLA, 474 of 480 operations recognised after XLA's
    optimizations, XLA's memory layout for 6 of 6 modules
not covered: custom call `cublas$gemm` by its table entry (in 6 modules)
replayed: 3 of 6: 1 agree, 1 lossy, 1 disagree; 1 too large, 1 not covered, 1
    failed
too large: estimated above the bounds: `--full` replays them, `-v` shows the
    estimates
not covered by replay: convolution (`conv` on h100)
not replayed: the worker was aborted (`boom` on h100)
6 cases on h100 in 1.5 s: 5 as expected, 0 unexpected, 0 inconclusive, 1 where
    schedule and numbers disagree, 0 could not analyse
"""


def test_a_report_with_replays_at_eighty_columns() -> None:
    assert render_terminal(REPLAYED, width=80) == AT_EIGHTY


def test_on_a_wide_terminal_replay_is_a_column_and_a_case_is_one_line() -> None:
    lines = render_terminal(REPLAYED, width=140).splitlines()
    assert lines[0].split() == ["case", "status", "replay", "h100"]
    words = [line.split("  ") for line in lines[:11] if line]
    found = {parts[0]: [part.strip() for part in parts[1:] if part.strip()][1] for parts in words}
    assert found == {
        "case": "replay",
        "flce[hidden]": "agrees",
        "flce[trivial]": "lossy 0.25",
        "seed[False-float32-True-4-2048-50304-1024]": "too large",
        "conv": "not covered",
        "boom": "failed",
        "bad": "DISAGREES",
    }


def test_verbose_puts_every_output_s_numbers_beside_its_verdict() -> None:
    case = make_case(replay=make_replay({**AGREEING, "input": make_numbers(Attribution.PARTLY_STALE, rows=8)}))
    text = render_terminal(make_report(case), verbose=True)
    assert "    weight  latent     replay fresh 3e-07\n" in text
    assert "    input   STALE      replay partly stale 6e+03  0 of 8 rows fresh, 0 stale\n" in text


def test_verbose_gives_the_reason_why_a_case_was_too_large() -> None:
    text = render_terminal(REPLAYED, verbose=True)
    assert (
        "too large: estimated 42 s and 6 GiB, more than 10 s or 4 GiB: `--full` replays it "
        "(`seed[False-float32-True-4-2048-50304-1024]` on h100)\n"
    ) in text


def test_a_device_has_a_column_beside_the_replay() -> None:
    text = render_terminal(make_report(make_case(replay=make_replay(), device=make_device())), verbose=True)
    assert text.splitlines()[0].split() == ["case", "status", "replay", "device", "h100"]
    assert "    input   STALE      replay stale 1.2e+04  device stale 1.3e+04\n" in text


@pytest.mark.parametrize(
    ("outputs", "word"),
    [
        ({**AGREEING, "weight": make_numbers(Attribution.UNDECIDED)}, "agrees 3 of 4"),
        (dict.fromkeys(AGREEING, make_numbers(Attribution.UNDECIDED)), "undecided"),
        ({**AGREEING, "loss": make_numbers(Attribution.STALE)}, "DISAGREES"),
    ],
)
def test_only_outputs_whose_numbers_can_distinguish_agree(outputs: dict[str, OutputNumbers], word: str) -> None:
    row = render_terminal(make_report(make_case(replay=make_replay(outputs)))).splitlines()[1]
    assert row.startswith(f"flce[hidden]  as expected  {word}  loss")


def test_precision_that_program_order_loses_shows_its_error_against_the_reference() -> None:
    numbers = {"loss": make_numbers(Attribution.LOSSY, error=1e-7)}
    case = make_case(outputs={"loss": Verdict.FRESH}, replay=make_replay(numbers, reference={"loss": 0.2468}))
    assert "  lossy 0.25  loss fresh\n" in render_terminal(make_report(case))


def test_targets_that_differ_in_their_replay_have_their_own() -> None:
    report = make_report(
        make_case(target="a100", replay=make_replay()),
        make_case(target="h100", replay=TOO_LARGE),
        targets=("a100", "h100"),
    )
    assert "  a100 agrees · h100 too large  " in render_terminal(report).splitlines()[1]


def test_a_report_without_a_replay_does_not_mention_one() -> None:
    assert "replay" not in render_terminal(make_report(make_case(findings=(make_finding(),))), verbose=True)


def test_a_finding_quotes_the_first_case_of_its_group_that_has_numbers() -> None:
    cases = [
        make_case("a", findings=(make_finding(),), replay=TOO_LARGE),
        make_case("b", findings=(make_finding(),), replay=make_replay({"bias": make_numbers(Attribution.STALE)})),
    ]
    text = render_terminal(make_report(*cases))
    assert "   replay: in `b`: relative error 1.2e+04, equal to the stale prediction\n" in text


def test_the_reason_why_a_case_was_not_run_on_the_device_is_shown() -> None:
    device = make_device(outputs={}, verdicts={}, error="case `flce[hidden]` needs 8 GPUs, and this machine has 1")
    text = render_terminal(make_report(make_case(device=device)))
    assert "ran on a device: 0 of 1 compared with the intended result\n" in text
    assert "not compared: case `flce[hidden]` needs 8 GPUs, and this machine has 1 (`flce[hidden]` on h100)\n" in text


def test_a_cut_replay_names_its_iterations_and_its_loop() -> None:
    place = SourceLine(file="train.py", line=82)
    cut = make_replay(cut=(CutLoop(instruction="while.1", line=place, ran=2, iterations=32),))
    report = make_report(make_case("flce[hidden]", replay=cut), make_case("flce[trivial]", replay=make_replay()))
    text = render_terminal(report)
    first, second = text.splitlines()[1:3]
    assert "agrees (2 of 32)" in first
    assert "agrees  " in second
    assert (
        "replayed in part: 2 of 32 iterations of the loop at train.py:82, as the whole takes long; `--full` replays"
        in text
    )
    written = json.loads(render_json(report))
    assert list(jsonschema.Draft202012Validator(load_schema()).iter_errors(written)) == []
    (loop,) = written["cases"][0]["replay"]["cut"]
    assert (loop["ran"], loop["iterations"], loop["line"]["line"]) == (2, 32, 82)


def test_numbers_that_cannot_distinguish_right_from_stale_are_not_called_fresh() -> None:
    # gradients that rounding takes to zero, before the kernel and after it
    lost = OutputNumbers(attribution=Attribution.FRESH, error=0.0, stale_error=0.0, distance=0.0, tolerance=1e-4)
    told = replace(lost, distance=1.0, stale_error=1.0)
    assert (
        summarise_numbers({"w": lost, "b": lost})
        == "2 outputs whose numbers cannot tell fresh from stale, relative error 0"
    )
    assert summarise_numbers({"w": told}) == "1 output fresh, relative error 0"


def test_a_stale_output_that_is_neither_value_may_be_a_mixture() -> None:
    numbers = make_numbers(Attribution.NEITHER)
    assert render_error(numbers) == "relative error 2, and 3 from the stale prediction"
    assert render_error(numbers, Verdict.LATENT) == render_error(numbers)
    assert render_error(numbers, Verdict.STALE) == (
        "relative error 2, and 3 from the stale prediction: neither the intended nor the stale value, so perhaps a mixture,"
        " partly old and partly new"
    )


NAN = float("nan")


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        (
            make_numbers(Attribution.NEITHER, error=NAN, stale_error=NAN, distance=NAN, nan_as_stale=True),
            "not a number, as in the stale prediction",
        ),
        (
            make_numbers(Attribution.NEITHER, error=NAN, stale_error=NAN, distance=NAN),
            "relative error not a number, and the stale prediction is not finite either",
        ),
        (
            make_numbers(Attribution.NEITHER, error=NAN, stale_error=NAN, distance=1.0),
            "relative error not a number, and the stale prediction is finite",
        ),
        (
            make_numbers(Attribution.NEITHER, error=2.0, stale_error=NAN, distance=NAN),
            "relative error 2, and the stale prediction is not finite",
        ),
        (
            make_numbers(Attribution.FRESH, error=0.0, stale_error=NAN, distance=NAN, tolerance=1e-4),
            "relative error 0, tolerance 0.0001, the stale prediction not finite",
        ),
        (
            make_numbers(Attribution.UNDECIDED, error=NAN, stale_error=NAN, distance=NAN),
            "relative error not a number, the intended value not finite",
        ),
    ],
)
def test_numbers_that_are_not_finite_are_no_distance(numbers: OutputNumbers, words: str) -> None:
    assert render_error(numbers) == words
    assert ("perhaps a mixture" in render_error(numbers, Verdict.STALE)) is (
        numbers.attribution is Attribution.NEITHER and not numbers.nan_as_stale
    )


def test_numbers_that_cannot_tell_say_so_and_change_no_verdict() -> None:
    lost = OutputNumbers(attribution=Attribution.FRESH, error=0.0, stale_error=0.0, distance=0.0, tolerance=1e-4)
    told = replace(lost, distance=1.0, stale_error=1.0)
    assert render_error(lost) == (
        "relative error 0, but the numbers cannot tell fresh from stale: a stale read would give a result 0 away, within the"
        " tolerance 0.0001"
    )
    assert render_error(told) == "relative error 0, tolerance 0.0001, the stale prediction 1 away"
    latent = {"w": Verdict.LATENT, "b": Verdict.LATENT}
    word = render_agreement_word(latent, make_replay({"w": lost, "b": told}), ())
    assert compute_text(word) == "agrees, 1 cannot tell"
    assert compute_text(render_agreement_word(latent, make_replay({"w": lost}), ())) == "agrees, cannot tell"
    assert compute_text(render_agreement_word(latent, make_replay({"b": told}), ())) == "agrees"


def test_a_fresh_output_that_depends_on_no_write_agrees_without_more() -> None:
    same = OutputNumbers(attribution=Attribution.FRESH, error=0.0, stale_error=0.0, distance=0.0, tolerance=1e-4)
    assert compute_text(render_agreement_word({"w": Verdict.FRESH}, make_replay({"w": same}), ())) == "agrees"
