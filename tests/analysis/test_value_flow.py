"""Which value is computed from which, through fusions, loops and asynchronous computations."""

from ligerdiag.analysis.context import Context
from ligerdiag.analysis.def_use import ValueReaders
from ligerdiag.analysis.value_flow import ValueFlow, name_written
from ligerdiag.hlo.module import HloInstruction
from tests.analysis.by_hand import Program, judge
from tests.analysis.test_schedule_view import write_loop
from tests.analysis.test_schedules_by_hand import write_program
from tests.hlo.building import array, tuple_of


def make_flow(context: Context) -> ValueFlow:
    flow = ValueFlow(ValueReaders(context))
    for one in context.matching.actual:
        flow.add_write(one.write, flow.readers.find_overwritten(context.writes[one.write], one))
    return flow


def find(flow: ValueFlow, opcode: str) -> HloInstruction:
    (found,) = [one for one in flow.instructions.values() if one.opcode == opcode]
    return found


def test_a_result_of_a_fusion_is_computed_from_its_own_operands() -> None:
    schedule = Program()
    fused = schedule.computation("fused")
    a, b = (schedule.op(fused, "parameter", parameter_number=number) for number in (0, 1))
    pair = tuple_of(array(4), array(4))
    schedule.op(fused, "tuple", schedule.op(fused, "abs", a), schedule.op(fused, "sine", b), shape=pair)
    fused.is_fusion_computation = True
    entry = schedule.computation("entry")
    x = schedule.op(entry, "parameter")
    h, c = schedule.op(entry, "negate", x, tag=1), schedule.op(entry, "cosine", x)
    fusion = schedule.op(entry, "fusion", h, c, shape=pair, calls=[fused])
    for index in (0, 1):
        schedule.define(fusion, index)
    sums = schedule.kernel(entry, h, tag=2)
    schedule.place(x, h, c, sums)
    second = schedule.op(entry, "get-tuple-element", fusion, tuple_index=1)
    schedule.op(entry, "tuple", sums, second, shape=pair)
    flow = make_flow(judge(write_program(), schedule, "sums", "y"))
    number = find(flow, "fusion").id
    assert flow.list_sources((number, (0,))) == ((find(flow, "negate").id, ()),)
    assert flow.list_sources((number, (1,))) == ((find(flow, "cosine").id, ()),)
    reach = flow.compute_reach()
    assert reach[find(flow, "cosine").id, ()] == 0b10
    assert (number, (0,)) not in reach


def test_what_a_loop_carries_comes_from_before_it_and_from_its_body() -> None:
    flow = make_flow(judge(write_loop("ky"), write_loop("ky"), "s"))
    loop = find(flow, "while")
    assert set(flow.list_sources((loop.id, (1,)))) == {(find(flow, "cosine").id, ()), (find(flow, "abs").id, ())}
    (parameter,) = [p for p in (find(flow, "negate").operands[0].operands[0],) if p.opcode == "parameter"]
    assert flow.find_step(parameter.id) == loop.id
    assert flow.list_loops(find(flow, "abs").id) == (loop.id,)


def test_who_reads_behind_the_kernel_reads_what_it_left() -> None:
    for order, is_seen in (("ky", True), ("yk", False)):
        flow = make_flow(judge(write_loop("ky"), write_loop(order), "s"))
        kernel, value = find(flow, "custom-call"), find(flow, "negate")
        sources = flow.list_sources((find(flow, "abs").id, ()))
        assert (name_written(0, kernel.id) in sources) is is_seen
        assert (value.id, ()) in sources


def test_the_next_iteration_reads_what_the_kernel_left_in_a_carried_value() -> None:
    flow = make_flow(judge(write_loop("ky"), write_loop("yk"), "s"))
    loop, kernel = find(flow, "while"), find(flow, "custom-call")
    assert name_written(0, kernel.id) in flow.list_sources((loop.id, (0,)))


def test_an_asynchronous_computation_has_its_start_as_its_step() -> None:
    schedule = Program()
    callee = schedule.computation("callee")
    inner = schedule.op(callee, "abs", schedule.op(callee, "parameter"), tag=3)
    schedule.define(inner)
    entry = schedule.computation("entry")
    x = schedule.op(entry, "parameter")
    h = schedule.op(entry, "negate", x, tag=1)
    sums = schedule.kernel(entry, h, tag=2)
    start = schedule.op(entry, "async-start", h, shape=tuple_of(tuple_of(array(4)), array(4)), calls=[callee])
    done = schedule.op(entry, "async-done", start)
    schedule.place(x, h, sums)
    schedule.op(entry, "tuple", sums, done, shape=tuple_of(array(4), array(4)))
    flow = make_flow(judge(write_program(), schedule, "sums", "y"))
    *_, nodes = flow.list_output_nodes()
    path = flow.find_path(nodes, lambda node: node == name_written(0, find(flow, "custom-call").id))
    assert flow.name_steps(path) == (find(flow, "custom-call").id, find(flow, "async-start").id)
