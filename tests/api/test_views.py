"""The drawing data of the HTML report for real artifacts of cases/."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from ligerdiag import api
from ligerdiag.model.findings import Verdict
from ligerdiag.model.report import CaseReport
from ligerdiag.model.schedule_view import AccessKind, BufferAccess, Lane, Place, ReadKind, ScheduleStep, ScheduleView
from tests.analysis.view_violations import list_violations
from tests.api.conftest import ROOT, list_selectors
from tests.case_levels import SMALL

type Reports = Mapping[str, CaseReport]


@pytest.fixture(scope="module")
def reports(cache: Path) -> Reports:
    """The daily cases by id, with their views; the first user of `table` has already compiled them."""
    selectors = tuple(map(str, list_selectors(everything=False)))
    options = api.CheckOptions(selectors=selectors, cache_directory=cache, replay=False, view=True)
    return {report.id: report for report in api.check(options).cases}


def view_of(reports: Reports, case: str) -> ScheduleView:
    view = reports[case].view
    assert view is not None
    return view


def steps_of(view: ScheduleView) -> dict[int, ScheduleStep]:
    return {step.id: step for step in view.steps}


def reads_of(view: ScheduleView, output: str, kind: ReadKind) -> list[BufferAccess]:
    return [one for one in view.accesses if one.read is kind and output in one.outputs]


def test_the_views_of_all_cases_satisfy_the_invariants(reports: Reports) -> None:
    violations = {name: list(list_violations(view_of(reports, name))) for name in reports}
    assert {name: found for name, found in violations.items() if found} == {}


def test_a_view_has_the_verdicts_of_its_report(reports: Reports) -> None:
    for report in reports.values():
        assert report.view is not None
        assert {output.name: output.verdict for output in report.view.outputs} == report.outputs
        assert len(report.view.buffers) == report.coverage.hidden_writes


NOT_RUN = {"accumulated_sum[unused-hidden]": "add_sum_kernel", "dropped_backward[hidden]": "scale_kernel"}
"""Cases whose kernel JAX drops: the schedule has no call from which an arrow could be missing."""
NOT_RUN_BACKWARD = {f"{kernel}[hidden]" for kernel in ("geglu", "rope", "swiglu")}
"""Cases whose backward kernel JAX drops; the same holds for their gradients."""


@pytest.mark.parametrize("name", NOT_RUN)
def test_an_output_says_that_its_kernel_is_not_run(name: str, reports: Reports) -> None:
    view = view_of(reports, name)
    said = {one.name: one.sentence for one in view.outputs if one.verdict is Verdict.STALE}
    assert said
    assert not [step for step in view.steps if step.is_kernel]
    assert not [buffer for buffer in view.buffers if buffer.is_performed]
    why = f"is wrong: `{NOT_RUN[name]}` does not run, so its write is missing"
    assert said == {output: f"`{output}` {why}" for output in said}
    assert not [note for note in view.notes if "it is unknown" in note]


@pytest.mark.parametrize("name", sorted(NOT_RUN_BACKWARD))
def test_a_gradient_says_that_its_kernel_is_not_run(name: str, reports: Reports) -> None:
    untold = [one for one in view_of(reports, name).outputs if one.verdict is Verdict.STALE and not one.missing]
    assert untold
    assert [one.name for one in untold if " does not run, so its write is missing" not in one.sentence] == []


WRONG_WITHOUT_A_KERNEL = {
    "moved_ref[zeros]": "JAX separated the write of a store to a Ref from its reader",
    "shared_bytes[pieces-4]": "XLA put two results of one instruction",
    "shared_bytes[two_aliases]": "XLA writes `%wrapped_sine` over `%wrapped_tanh`",
}


@pytest.mark.parametrize("name", WRONG_WITHOUT_A_KERNEL)
def test_an_output_that_jax_or_xla_makes_wrong_blames_no_kernel(name: str, reports: Reports) -> None:
    view = view_of(reports, name)
    assert [one.name for one in view.outputs if f" is wrong: {WRONG_WITHOUT_A_KERNEL[name]}" not in one.sentence] == []
    assert [note for note in view.notes if note.startswith("no hidden write makes ")]
    assert not [note for note in view.notes if "it is unknown" in note]


def test_a_wrong_output_has_a_wrong_read(reports: Reports) -> None:
    unexplained = {
        (name, output.name)
        for name, report in reports.items()
        for view in [report.view]
        if view is not None
        for output in view.outputs
        if output.verdict is Verdict.STALE and not output.missing
    }
    assert {name for name, _ in unexplained} <= {
        *NOT_RUN,
        *NOT_RUN_BACKWARD,
        "accumulated_sum[twice-hidden]",
        "barrier_copy[kernel-hidden]",
        "fused_alias[halves]",  # the write is lost: all reads of the output are alike
        "fused_alias[stacked]",
        "moved_ref[zeros]",  # JAX has moved the read: XLA's input is already wrong
        "sub_views[hidden]",
        "two_losses[same-hidden]",
    }


def test_the_seed_reads_the_logits_too_early_and_one_gradient_is_right_by_luck(reports: Reports) -> None:
    view = view_of(reports, f"seed_flce[False-float32-True-{SMALL}]")
    steps = steps_of(view)
    (buffer,) = view.buffers
    assert (buffer.kernel, buffer.operand, buffer.shape, buffer.size) == ("cross_entropy_kernel", 0, "f32[2,32]", 256)
    assert buffer.allocation is not None
    (kernel,) = [step for step in view.steps if step.is_kernel]
    for output in ("bias", "input"):
        (read,) = reads_of(view, output, ReadKind.STALE)
        assert read.place is Place.SAME_BYTES
        assert steps[read.step].start < kernel.start
    (lucky,) = reads_of(view, "weight", ReadKind.LATENT)
    assert steps[lucky.step].start > kernel.start
    (loop,) = [step for step in view.steps if step.opcode == "while"]
    assert kernel.loops == (loop.id,)
    ways = {output.name: output.path for output in view.outputs}
    assert [way[-1] for way in (ways["bias"], ways["input"], ways["weight"])] == [loop.id] * 3
    assert ways["weight"][:2] == (kernel.id, lucky.step)


def test_a_step_knows_the_user_s_line_and_its_fused_operations(reports: Reports) -> None:
    view = view_of(reports, f"seed_flce[False-float32-True-{SMALL}]")
    fusion = next(step for step in view.steps if step.opcode == "fusion" and "dot_general" in step.op_name)
    assert fusion.source is not None
    assert fusion.source.line > 0
    assert "#ld" not in fusion.op_name
    assert any(" dot(" in line for line in fusion.fused)
    assert fusion.text in view.text[dict(view.anchors)[fusion.id]]


def test_after_a_folded_cast_the_readers_read_a_copy(reports: Reports) -> None:
    view = view_of(reports, f"bf16_flce[False-True-{SMALL}]")
    for output in ("input", "weight"):
        assert {read.place for read in reads_of(view, output, ReadKind.STALE)} == {Place.COPY}


def test_under_sharding_the_kernel_overwrites_the_gathered_copy(reports: Reports) -> None:
    view = view_of(reports, "sharded_flce[vocabulary-trivial]")
    (gather,) = [step for step in view.steps if step.name.startswith("%all-gather")]
    assert gather.lane is Lane.COLLECTIVE
    assert gather.end > gather.start
    (read,) = reads_of(view, "bias", ReadKind.STALE)
    assert read.place is Place.COPY
    assert set(read.outputs) == {"bias", "input", "weight"}
    assert "which was made from `%" in next(o.sentence for o in view.outputs if o.name == "bias")


def test_an_output_is_explained_by_the_second_wrong_operation_of_one_instruction(reports: Reports) -> None:
    view = view_of(reports, "sharded_flce[fsdp-hidden]")
    (bias,) = [output for output in view.outputs if output.name == "bias"]
    assert bias.path
    assert bias.path[0] == bias.missing[0].reader


def test_the_path_of_a_value_carried_by_a_loop_leads_to_the_next_iteration(reports: Reports) -> None:
    view = view_of(reports, "loop_carry[descent-hidden]")
    steps = steps_of(view)
    way = [steps[number] for number in next(o.path for o in view.outputs if o.name == "losses")]
    assert way[0].is_kernel
    assert [step.opcode for step in way].count("while") == 2
    assert not any(one.read is ReadKind.STALE for one in view.accesses)


def test_a_saved_residual_is_clobbered_after_the_kernel(reports: Reports) -> None:
    view = view_of(reports, "saved_residual[exp-perplexity-hidden]")
    (read,) = reads_of(view, "logits", ReadKind.CLOBBERED)
    assert read.place is Place.SAME_BYTES
    assert "and gets what the kernel wrote" in next(o.sentence for o in view.outputs if o.name == "logits")


def test_a_constant_is_defined_by_itself(reports: Reports) -> None:
    view = view_of(reports, "constant[hidden]")
    (define,) = [one for one in view.accesses if one.kind is AccessKind.DEFINE]
    assert steps_of(view)[define.step].opcode == "constant"


def test_a_read_that_could_not_be_followed_is_unknown(reports: Reports) -> None:
    view = view_of(reports, "unknown_effect[hidden]")
    assert {buffer.unknown for buffer in view.buffers} == {True}
    assert {one.read for one in view.accesses if one.kind is AccessKind.READ} == {ReadKind.UNKNOWN}


def test_the_view_of_a_program_with_declared_writes_has_only_text(reports: Reports) -> None:
    view = view_of(reports, f"flce_modes[aliased-float32-True-{SMALL}]")
    assert (view.buffers, view.steps) == ((), ())
    assert any("output_to_operand_aliasing={" in line for line in view.text)


def test_without_the_program_no_read_is_right(reports: Reports) -> None:
    folder = Path(reports[f"seed_flce[True-float32-True-{SMALL}]"].artifact)
    (optimized,) = [path for path in folder.iterdir() if path.name.startswith("optimized") and path.suffix == ".pb"]
    (report,) = api.inspect(api.InspectOptions(paths=(optimized,), view=True)).cases
    assert report.view is not None
    assert list(list_violations(report.view)) == []
    assert {one.read for one in report.view.accesses if one.kind is AccessKind.READ} == {ReadKind.UNKNOWN}
    assert Verdict.STALE not in {output.verdict for output in report.view.outputs}


def test_an_inspected_artifact_has_the_same_view_as_in_check(reports: Reports, cache: Path) -> None:
    checked = reports[f"seed_flce[False-float32-True-{SMALL}]"]
    options = api.InspectOptions(paths=(Path(checked.artifact),), cache_directory=cache, view=True)
    (report,) = api.inspect(options).cases
    assert report.view == checked.view


def test_a_view_is_computed_only_on_request(reports: Reports, cache: Path) -> None:
    case = "constant[hidden]"
    options = api.CheckOptions(selectors=(str(ROOT / "cases/constant.py"),), cache_directory=cache, replay=False)
    assert {report.view for report in api.check(options).cases if report.id == case} == {None}
    assert reports[case].view is not None
