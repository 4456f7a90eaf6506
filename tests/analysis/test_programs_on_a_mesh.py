"""Verdicts on programs over four devices, each with the reason why it is the truth."""

from tests.analysis.conftest import Programs
from tests.analysis.schedule_oracle import MUST_SEE, find_kernels, look, read_slices


def test_a_kernel_on_a_gathered_copy_leaves_the_shards_as_they_were(meshes: Programs) -> None:
    # every device gathers h into a temporary for the kernel; the readers read the shard
    program = meshes["gathered"]
    (kernel,) = find_kernels(program)
    names = [i.name for i in program.optimized.entry.sequence]
    assert any("all-gather" in name for name in names)
    overwritten = read_slices(program.positions, kernel.instruction)
    readers = [i for i in program.optimized.entry.sequence if read_slices(program.positions, i) & overwritten]
    assert readers == [kernel.instruction]
    assert program.verdicts == {"sums": "fresh", "seen": "stale", "back": "stale"}


def test_a_kernel_in_a_shard_map_overwrites_the_shard_itself(meshes: Programs) -> None:
    # the gradient is fused with what the kernel returns; what one result depends on is not what the other does
    assert meshes["shard_mapped"].verdicts == {"sums": "fresh", "gradient": "fresh"}


def test_a_combined_collective_is_several(meshes: Programs) -> None:
    # one async reduce-scatter of two operands: the second has nothing to do with the kernel
    program = meshes["combined_reduce_scatter"]
    start = next(i for i in program.optimized.entry.sequence if i.opcode == "async-start")
    assert len(start.operands) == 2
    assert program.verdicts == {"sums": "fresh", "gradient": MUST_SEE[look(program, "gradient")], "total": "fresh"}


def test_results_of_a_combined_collective_stand_in_different_bytes(meshes: Programs) -> None:
    program = meshes["combined_reduce_scatter"]
    done = next(i for i in program.optimized.entry.sequence if i.opcode == "async-done")
    start = done.operands[0]
    callee = program.optimized.computations[start.called_computations[0]]
    assert program.positions.locate(done) == program.positions.locate(callee.root)
    assert len(set(program.positions.locate(done))) == 2


def test_operands_that_xla_concatenates_for_one_collective_are_told_apart(meshes: Programs) -> None:
    # small all-reduces are joined into one array and cut apart again
    assert set(meshes["combined_by_concatenation"].verdicts.values()) == {"fresh"}
