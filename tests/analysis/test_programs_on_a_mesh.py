"""Verdicts on programs over four devices; each test gives the reason."""

from tests.analysis.conftest import Programs
from tests.analysis.schedule_oracle import MUST_SEE, classify_read, find_kernels, read_slices


def test_a_kernel_on_a_gathered_copy_does_not_write_the_shards(meshes: Programs) -> None:
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
    # the gradient is fused with what the kernel returns, but each result has its own dependences
    assert meshes["shard_mapped"].verdicts == {"sums": "fresh", "gradient": "fresh"}


def test_each_operand_of_a_combined_collective_is_judged_separately(meshes: Programs) -> None:
    # one async reduce-scatter of two operands: the second does not depend on the kernel
    program = meshes["combined_reduce_scatter"]
    start = next(i for i in program.optimized.entry.sequence if i.opcode == "async-start")
    assert len(start.operands) == 2
    assert program.verdicts == {
        "sums": "fresh",
        "gradient": MUST_SEE[classify_read(program, "gradient")],
        "total": "fresh",
    }


def test_results_of_a_combined_collective_have_different_bytes(meshes: Programs) -> None:
    program = meshes["combined_reduce_scatter"]
    done = next(i for i in program.optimized.entry.sequence if i.opcode == "async-done")
    start = done.operands[0]
    callee = program.optimized.computations[start.called_computations[0]]
    assert program.positions.locate(done) == program.positions.locate(callee.root)
    assert len(set(program.positions.locate(done))) == 2


def test_operands_that_xla_concatenates_for_one_collective_are_judged_separately(meshes: Programs) -> None:
    # XLA joins small all-reduces into one array and splits the result
    assert set(meshes["combined_by_concatenation"].verdicts.values()) == {"fresh"}
