"""Loops cut short: the first iterations decide like all of them, and no output is called right that they cannot decide."""

import json

import pytest

from ligerdiag.artifacts.artifact import Artifact
from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.module import HloModule
from ligerdiag.hlo.parse import load_hlo
from ligerdiag.model.findings import Attribution, Replay, ReplayState
from ligerdiag.replay.dump_replay import draw_parameters
from ligerdiag.replay.runs.case_run import CaseInputs, replay_case
from ligerdiag.replay.runs.loop_cuts import cut_loops, cut_named_loops, find_shared_loops
from ligerdiag.report.agreement import Agreement, compute_replay_agreements
from tests.analysis import compiled
from tests.analysis.compiled import Compiler, Program
from tests.replay.test_estimate import make_loop, parse_text

compiler = compiled.compiler


def list_loops(artifact: Artifact) -> tuple[str, ...]:
    program, optimized = load_hlo(artifact.as_written)[0], load_hlo(artifact.optimized)[0]
    return tuple(one.loop.name for one in find_shared_loops(program, optimized))


def replay(program: Program, cut: tuple[str, ...] = ()) -> Replay:
    arguments = draw_parameters(program.as_written, 0)
    found = replay_case(
        program.artifact, CaseInputs(arguments=arguments, find_reference=lambda: None), rows=False, cut=cut
    )
    assert found.state is ReplayState.DONE, found.reason
    return found


LIKE_THE_WHOLE = {
    "counted": "cut_loops.py",
    "of_the_iteration_before": "cut_loops.py",
    "mixed_in_body": "loops.py",
    "closed_over": "loops.py",
    "carried_hides_missing": "loops.py",
    "write_inside_read_behind": "loops.py",
    "nested": "cut_loops.py",
}


def test_the_first_iterations_give_the_attributions_of_all(compiler: Compiler) -> None:
    wrong = set[str]()
    for case, file in LIKE_THE_WHOLE.items():
        program = compiler.compile(file)[case]
        names = list_loops(program.artifact)
        assert names, case
        whole, part = replay(program), replay(program, names)
        assert whole.cut == ()
        assert {one.ran for one in part.cut} == {2}
        assert min(one.iterations for one in part.cut) >= 3
        told = {name: one.attribution for name, one in part.outputs.items()}
        assert told == {name: one.attribution for name, one in whole.outputs.items()}, case
        assert sum(one.launches for one in part.launches) < sum(one.launches for one in whole.launches)
        wrong |= {case for one in told.values() if one.is_wrong}
    assert {"counted", "mixed_in_body", "nested"} <= wrong


@pytest.mark.parametrize("case", ["late", "late_branch"])
def test_an_output_that_is_wrong_only_in_the_last_iteration_is_not_called_right(compiler: Compiler, case: str) -> None:
    program = compiler.compile("cut_loops.py")[case]
    whole, part = replay(program), replay(program, list_loops(program.artifact))
    verdicts, findings = program.inspection.outputs, program.inspection.findings
    assert verdicts["total"].value == "stale"
    assert whole.outputs["total"].attribution.is_wrong
    assert part.outputs["total"].attribution is Attribution.FRESH
    said = compute_replay_agreements(verdicts, part, findings)
    assert said["total"] is Agreement.SILENT, "it does not contradict the schedule, nor confirm anything"
    assert [one for name, one in said.items() if name != "total"] == [Agreement.AGREES]


def test_an_output_that_relies_on_all_iterations_is_undecided(compiler: Compiler) -> None:
    program = compiler.compile("cut_loops.py")["counted_behind"]
    whole, part = replay(program), replay(program, list_loops(program.artifact))
    assert {one.attribution for one in whole.outputs.values()} == {Attribution.FRESH}
    assert part.outputs["seen"].attribution is Attribution.FRESH
    if part.outputs["times"].attribution is not Attribution.FRESH:  # XLA uses the number of iterations after the loop
        assert part.outputs["times"].attribution is Attribution.UNDECIDED
        assert part.reason == "`times` may be wrong only because loops were cut short: `--full` runs all iterations"


@pytest.mark.parametrize("case", ["while_loop", "perhaps_no_iteration", "single_iteration"])
def test_a_data_dependent_loop_or_one_that_is_gone_is_not_cut(compiler: Compiler, case: str) -> None:
    assert list_loops(compiler.compile("loops.py")[case].artifact) == ()


def tag(text_loop: HloModule, name: str) -> HloModule:
    (loop,) = [one for one in text_loop.entry.instructions if one.opcode == "while"]
    text_loop.tags[loop.id] = (int(name),)  # type: ignore[index]
    return text_loop


def known(times: int) -> str:
    config = json.dumps({"known_trip_count": {"n": str(times)}}).replace('"', '\\"')
    return f', backend_config="{config}"'


def test_a_loop_is_cut_only_if_both_modules_run_it_equally_often() -> None:
    program = tag(make_loop(12), "3")
    assert [one.iterations for one in find_shared_loops(program, tag(make_loop(12, config=known(12)), "3"))] == [12]
    for other in (
        tag(make_loop(12, config=known(6)), "3"),  # unrolled by two
        tag(make_loop(12, config=known(11)), "3"),  # an iteration peeled off
        tag(make_loop(12, config=known(12)), "4"),  # another loop
        tag(make_loop(12), "3"),  # XLA does not give the count
        parse_text("ENTRY %e {\n  ROOT %x = f32[2] parameter(0)\n}"),
    ):
        assert find_shared_loops(program, other) == ()
        with pytest.raises(ArtifactError, match="the program and the schedule do not run a loop `w` equally often"):
            cut_named_loops(program, other, ["w"])


def test_a_loop_that_counts_by_two_or_depends_on_data_is_not_cut() -> None:
    optimized = tag(make_loop(12, config=known(12)), "3")
    assert find_shared_loops(tag(make_loop(12, direction="NE"), "3"), optimized) == ()
    assert find_shared_loops(tag(make_loop(12, start="copy(%n)"), "3"), optimized) == ()
    assert find_shared_loops(tag(make_loop(12, step=2), "3"), optimized) == ()


def test_a_loop_of_two_iterations_is_not_cut() -> None:
    program, optimized = tag(make_loop(2), "3"), tag(make_loop(2, config=known(2)), "3")
    assert cut_loops(program, find_shared_loops(program, optimized)).loops == ()
