"""Verdicts and notes on a compilation that lacks its program, its schedule or its buffer assignment."""

from dataclasses import replace

from ligerdiag.analysis.writes import LOOPS
from ligerdiag.hlo.aliasing import build_must_alias_buffers
from ligerdiag.hlo.dataflow import Positions
from ligerdiag.hlo.parse import load_hlo
from ligerdiag.hlo.shape import iterate_leaves
from ligerdiag.model.findings import Verdict
from tests.inspection.conftest import Pairs


def test_without_a_program_the_finding_lists_the_readers_before_and_after(pairs: Pairs) -> None:
    _, compilation = pairs["residual"].load_dump()
    inspection = pairs["residual"].inspect(replace(compilation, program=None))
    assert set(inspection.outputs.values()) == {Verdict.UNKNOWN}
    (finding,) = [finding for finding in inspection.findings if finding.rule == "LD006"]
    evidence = dict(finding.evidence)
    assert "reads the operand before the kernel" in evidence["before"]
    assert "reads the operand after the kernel" in evidence["after"]


def test_without_a_program_an_output_is_fresh_only_if_it_is_unrelated_to_the_write(pairs: Pairs) -> None:
    seen = {
        verdict
        for pair in pairs.values()
        for verdict in pair.inspect(replace(pair.load_dump()[1], program=None)).outputs.values()
    }
    assert seen == {Verdict.FRESH, Verdict.UNKNOWN}


def test_without_a_schedule_every_output_is_unknown(pairs: Pairs) -> None:
    _, compilation = pairs["residual"].load_dump()
    computations = {
        key: replace(computation, sequence=()) for key, computation in compilation.optimized.computations.items()
    }
    optimized = replace(
        compilation.optimized, computations=computations, entry=computations[compilation.optimized.entry.id]
    )
    inspection = pairs["residual"].inspect(replace(compilation, optimized=optimized, buffers=None))
    assert set(inspection.outputs.values()) == {Verdict.UNKNOWN}
    assert any("no schedule" in note for note in inspection.coverage.not_covered)
    assert [finding.rule for finding in inspection.findings] == ["LD006"]


def test_outputs_without_names_are_numbered(pairs: Pairs) -> None:
    _, compilation = pairs["residual"].load_dump()
    inspection = pairs["residual"].inspect(replace(compilation, output_names=()))
    assert tuple(inspection.outputs) == ("output 0", "output 1", "output 2")


def test_values_that_must_share_storage_do_so_in_xlas_own_assignment(pairs: Pairs) -> None:
    shared = 0
    for case, pair in pairs.items():
        module, buffers = load_hlo(pair.untagged.optimized)
        assert buffers is not None
        built = build_must_alias_buffers(module)
        theirs, ours = Positions(module, buffers), Positions(module, built)
        slices: dict[int, int] = {}
        pending, flow = [module.entry], {module.entry.id: module.entry}
        while pending:
            for instruction in pending.pop().instructions:
                for index in iterate_leaves(instruction.shape):
                    mine, real = ours.find(instruction, index), theirs.find(instruction, index)
                    assert mine is not None, (case, instruction.name, index)
                    assert real is not None, (case, instruction.name, index)
                    shared += mine in slices
                    assert slices.setdefault(mine, real) == real, (case, instruction.name, index)
                if instruction.opcode in LOOPS | {"call", "conditional", "async-start"}:
                    for callee in instruction.called_computations:
                        if callee not in flow:
                            flow[callee] = module.computations[callee]
                            pending.append(flow[callee])
    assert shared > 100
