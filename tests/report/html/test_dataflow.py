"""The graph from the kernel to the outputs: its nodes, their positions, and the missing edge."""

from dataclasses import replace
from itertools import combinations

from ligerdiag.model.findings import Verdict
from ligerdiag.model.schedule_view import OutputView
from ligerdiag.report.html.dataflow_drawing import (
    MAX_OUTPUTS,
    NODE_HEIGHT,
    NODE_WIDTH,
    EdgeKind,
    compute_dataflow,
    compute_graph,
)
from tests.report.html.view_samples import make_step, make_view


def test_the_missing_edge_leads_from_the_kernel_to_the_reader() -> None:
    graph = compute_graph(make_view())
    missing = [edge for edge in graph.edges if edge.kind is EdgeKind.MISSING]
    assert [(edge.source, edge.target) for edge in missing] == [(("step", "7"), ("step", "9"))]


def test_the_reader_gets_the_old_contents_instead() -> None:
    graph = compute_graph(make_view())
    old = [edge for edge in graph.edges if edge.kind is EdgeKind.OLD]
    assert (("step", "3"), ("step", "9")) in [(edge.source, edge.target) for edge in old]


def test_every_output_with_a_path_is_an_end() -> None:
    graph = compute_graph(make_view())
    assert {node.title for node in graph.nodes if node.style == "output"} == {"loss", "input", "weight", "bias"}


def test_nodes_do_not_overlap_and_flow_leads_to_the_right() -> None:
    graph = compute_graph(make_view())
    flow = compute_dataflow(graph)
    for one, other in combinations(flow.nodes, 2):
        assert abs(one.x - other.x) >= NODE_WIDTH or abs(one.y - other.y) >= NODE_HEIGHT
    x = {placed.node.key: placed.x for placed in flow.nodes}
    assert all(x[edge.source] < x[edge.target] for edge in graph.edges)
    assert all(0 <= placed.x <= flow.width - NODE_WIDTH for placed in flow.nodes)
    assert all(0 <= placed.y <= flow.height - NODE_HEIGHT for placed in flow.nodes)


def test_a_long_path_is_one_node_that_names_its_steps() -> None:
    steps = (*make_view().steps, *(make_step(number) for number in range(100, 120)))
    output = OutputView(name="loss", verdict=Verdict.FRESH, path=(7, *range(100, 120)))
    graph = compute_graph(make_view(steps=steps, outputs=(output,)))
    (chain,) = [node for node in graph.nodes if node.style == "chain"]
    assert chain.title == "20 steps"
    assert chain.steps[0] == "%fusion.100"


def test_a_path_around_a_loop_is_drawn_in_bounded_time() -> None:
    output = OutputView(name="loss", verdict=Verdict.FRESH, path=(7, 8, 7, 10))
    flow = compute_dataflow(compute_graph(make_view(outputs=(output,))))
    assert len(flow.edges) >= 4


def test_an_edge_that_leads_back_goes_over_the_nodes() -> None:
    output = OutputView(name="loss", verdict=Verdict.FRESH, path=(7, 8, 7, 10))
    flow = compute_dataflow(compute_graph(make_view(outputs=(output,))))
    (back,) = [edge for edge in flow.edges if edge.title.startswith("value: %gemm_fusion_dot.7 to %triton")]
    assert 0 <= back.label[1] < min(placed.y for placed in flow.nodes)


def test_hidden_steps_are_left_out_of_a_path() -> None:
    output = OutputView(name="loss", verdict=Verdict.FRESH, path=(7, 999, 10))
    graph = compute_graph(make_view(outputs=(output,)))
    assert {node.step for node in graph.nodes} == {3, 7, 10, None}


def test_among_many_outputs_the_wrong_ones_are_drawn() -> None:
    fresh = [OutputView(name=f"f{n}", verdict=Verdict.FRESH, path=(7, 10)) for n in range(MAX_OUTPUTS + 3)]
    wrong = replace(fresh[0], name="wrong", verdict=Verdict.STALE)
    graph = compute_graph(make_view(outputs=(*fresh, wrong)))
    drawn = [node.title for node in graph.nodes if node.style == "output"]
    assert "wrong" in drawn
    assert len(drawn) == MAX_OUTPUTS
    assert graph.omitted == 4


def test_nothing_is_drawn_without_outputs() -> None:
    flow = compute_dataflow(compute_graph(make_view(outputs=())))
    assert (flow.width, flow.height, flow.nodes) == (0, 0, ())
