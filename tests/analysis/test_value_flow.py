"""The flow of values through fusions, loops and asynchronous computations."""

from ligerdiag.analysis.context import Context
from ligerdiag.analysis.def_use import ValueReaders
from ligerdiag.analysis.value_flow import ValueFlow, name_written
from ligerdiag.hlo.module import HloInstruction
from tests.analysis.pair_files import judge_pair


def make_flow(context: Context) -> ValueFlow:
    flow = ValueFlow(ValueReaders(context))
    for one in context.matching.actual:
        flow.add_write(one.write, flow.readers.find_overwritten(context.writes[one.write], one))
    return flow


def find(flow: ValueFlow, opcode: str) -> HloInstruction:
    (found,) = [one for one in flow.instructions.values() if one.opcode == opcode]
    return found


def test_a_result_of_a_fusion_is_computed_from_its_own_operands() -> None:
    flow = make_flow(judge_pair("result_of_a_fusion"))
    number = find(flow, "fusion").id
    assert flow.list_sources((number, (0,))) == ((find(flow, "negate").id, ()),)
    assert flow.list_sources((number, (1,))) == ((find(flow, "cosine").id, ()),)
    reach = flow.compute_reach()
    assert reach[find(flow, "cosine").id, ()] == 0b10
    assert (number, (0,)) not in reach


def test_a_carried_value_comes_from_before_the_loop_and_from_its_body() -> None:
    flow = make_flow(judge_pair("reader_in_a_loop", "the kernel first"))
    loop = find(flow, "while")
    assert set(flow.list_sources((loop.id, (1,)))) == {(find(flow, "cosine").id, ()), (find(flow, "abs").id, ())}
    (parameter,) = [p for p in (find(flow, "negate").operands[0].operands[0],) if p.opcode == "parameter"]
    assert flow.find_step(parameter.id) == loop.id
    assert flow.list_loops(find(flow, "abs").id) == (loop.id,)


def test_a_reader_after_the_kernel_reads_what_the_kernel_left() -> None:
    for label, is_seen in (("the kernel first", True), ("the reader first", False)):
        flow = make_flow(judge_pair("reader_in_a_loop", label))
        kernel, value = find(flow, "custom-call"), find(flow, "negate")
        sources = flow.list_sources((find(flow, "abs").id, ()))
        assert (name_written(0, kernel.id) in sources) is is_seen
        assert (value.id, ()) in sources


def test_the_next_iteration_reads_what_the_kernel_left_in_a_carried_value() -> None:
    flow = make_flow(judge_pair("reader_in_a_loop", "the reader first"))
    loop, kernel = find(flow, "while"), find(flow, "custom-call")
    assert name_written(0, kernel.id) in flow.list_sources((loop.id, (0,)))


def test_the_step_of_an_asynchronous_computation_is_its_start() -> None:
    flow = make_flow(judge_pair("asynchronous_reader"))
    *_, nodes = flow.list_output_nodes()
    path = flow.find_path(nodes, lambda node: node == name_written(0, find(flow, "custom-call").id))
    assert flow.name_steps(path) == (find(flow, "custom-call").id, find(flow, "async-start").id)
