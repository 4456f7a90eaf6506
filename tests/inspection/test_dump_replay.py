"""Replays of a dump: the modules that XLA wrote give the numbers that `check` finds for the same program."""

import numpy as np
import pytest

from ligerdiag.analysis.provenance import compute_tags
from ligerdiag.effects.isolated import read_modules_isolated
from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.parse import load_hlo
from ligerdiag.model.findings import Attribution, Replay, ReplayState, Verdict
from ligerdiag.replay.dump_replay import draw_parameters, join_programs, plan_dump, replay_dump
from ligerdiag.replay.ops.scope import NotCoveredError
from ligerdiag.replay.replay_worker import Bounds
from ligerdiag.replay.runs.case_run import CaseInputs, Programs, replay_case
from tests.inspection.conftest import Pair, Pairs


def find_ambiguous(pair: Pair) -> set[str]:
    """Returns the outputs whose intent the dump does not show."""
    _, dump = pair.load_dump()
    return {name for name, verdict in pair.inspect(dump).outputs.items() if verdict is Verdict.UNKNOWN}


def join_pair(pair: Pair) -> Programs:
    program, dump = pair.load_dump()
    assert dump.buffers is not None
    retagged = compute_tags(program, dump.optimized)
    return join_programs(retagged.program, retagged.optimized, dump.buffers, dump.output_names)


def replay_pair(pair: Pair, *, bounds: Bounds | None = None, reads_kernels: bool = True) -> Replay:
    """Replays the dump; without `reads_kernels`, as if no worker could read its kernels."""
    plan = plan_dump(join_pair(pair), bounds or Bounds(), find_ambiguous(pair))
    if isinstance(plan, Replay):
        return plan
    sources = plan.sources if reads_kernels else ()
    modules = read_modules_isolated(sources, pair.effects)
    return replay_dump(plan, draw_parameters(plan.programs.program, 0), modules)


def replay_artifact(pair: Pair) -> Replay:
    """Replays the artifact as `check` does, on the same arguments."""
    program, _ = load_hlo(pair.tagged.unoptimized)
    return replay_case(
        pair.tagged, CaseInputs(arguments=draw_parameters(program, 0), find_reference=lambda: None), rows=False
    )


def test_a_dump_gives_the_same_numbers_as_a_check(pairs: Pairs) -> None:
    launched, undecided = 0, set[str]()
    for case, pair in pairs.items():
        dumped, checked, ambiguous = replay_pair(pair), replay_artifact(pair), find_ambiguous(pair)
        assert dumped.state is checked.state is ReplayState.DONE, (case, dumped.reason, checked.reason)
        assert bool(dumped.reason) == bool(checked.reason), case
        assert dumped.outputs.keys() == checked.outputs.keys(), case
        for name, numbers in dumped.outputs.items():
            wanted = Attribution.UNDECIDED if name in ambiguous else checked.outputs[name].attribution
            assert numbers.attribution is wanted, (case, name)
        assert len(dumped.launches) == len(checked.launches), case
        launched += bool(dumped.launches)
        undecided |= {case} if ambiguous else set()
    assert launched > 30
    assert "residual" in undecided
    assert len(pairs) - len(undecided) > 30


def test_an_output_whose_intent_a_dump_does_not_show_is_not_called_fresh(pairs: Pairs) -> None:
    """`check` has the program as written and calls this gradient wrong; the dump's program order would call it right."""
    pair = pairs["residual"]
    assert replay_artifact(pair).outputs["gradient"].attribution is Attribution.NEITHER
    assert replay_pair(pair).outputs["gradient"].attribution is Attribution.UNDECIDED


def test_a_dump_above_the_bounds_is_replayed_with_its_loop_cut_short(pairs: Pairs) -> None:
    pair = pairs["mixed_in_body"]
    whole = replay_pair(pair)
    part = replay_pair(pair, bounds=Bounds(seconds=0.9 * whole.estimated_seconds))
    assert [(one.ran, one.iterations) for one in part.cut] == [(2, 8)]
    attributions = {name: one.attribution for name, one in part.outputs.items()}
    assert attributions == {name: one.attribution for name, one in whole.outputs.items()}


def test_a_dump_above_the_bounds_is_too_large(pairs: Pairs) -> None:
    record = replay_pair(next(iter(pairs.values())), bounds=Bounds(memory=1))
    assert record.state is ReplayState.TOO_LARGE
    assert "--full" in record.reason


def test_the_seed_determines_the_drawn_values(pairs: Pairs) -> None:
    program, _ = load_hlo(next(iter(pairs.values())).untagged.unoptimized)
    one, same, other = (draw_parameters(program, seed) for seed in (3, 3, 4))
    assert all(np.array_equal(a, b) for a, b in zip(one, same, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_a_program_without_an_order_is_not_covered(pairs: Pairs) -> None:
    program, dump = next(iter(pairs.values())).load_dump()
    assert dump.buffers is not None
    with pytest.raises(NotCoveredError, match="lack ligerdiag's tag"):
        join_programs(program, dump.optimized, dump.buffers, dump.output_names)


def test_a_kernel_that_no_worker_could_read_is_not_covered(pairs: Pairs) -> None:
    record = replay_pair(pairs["residual"], reads_kernels=False)
    assert record.state is ReplayState.NOT_COVERED
    assert "could not be read" in record.reason


def test_a_parameter_of_another_shape_is_not_covered(pairs: Pairs) -> None:
    """No values are drawn for it, however large it claims to be."""
    program, dump = pairs["residual"].load_dump()
    assert dump.buffers is not None
    retagged = compute_tags(program, dump.optimized)
    retagged.program.entry.parameters[0].shape.dimensions[0] = 1 << 40
    with pytest.raises(NotCoveredError, match="differ in the shapes of their arguments"):
        join_programs(retagged.program, retagged.optimized, dump.buffers, dump.output_names)


def test_parameters_larger_than_their_buffers_are_refused(pairs: Pairs) -> None:
    program, dump = pairs["residual"].load_dump()
    assert dump.buffers is not None
    retagged = compute_tags(program, dump.optimized)
    for module in (retagged.program, retagged.optimized):
        module.entry.parameters[0].shape.dimensions[0] = 1 << 40
    with pytest.raises(ArtifactError, match="is inconsistent"):
        join_programs(retagged.program, retagged.optimized, dump.buffers, dump.output_names)
