"""Draws the dataflow from kernels to outputs as a graph: the steps on the way, and the edges of the program that the
schedule lacks.

Nodes are placed in layers from left to right; the layer of a node is the length of the longest path to it. The order within
a layer keeps crossings of edges few, and long edges go around other nodes.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.model.findings import VERDICT_ORDER, Verdict
from ligerdiag.model.schedule_view import (
    READ_KIND_ORDER,
    AccessKind,
    OutputView,
    Place,
    ReadKind,
    ScheduleStep,
    ScheduleView,
)
from ligerdiag.report.html.environment import compute_lines

MAX_OUTPUTS = 6
"""The graph shows at most this many outputs, the wrong ones first."""

_PASSING = having(Trait.MAKES_TUPLE, Trait.TAKES_ELEMENT) | {"while"}
"""Opcodes of instructions that only forward values. The graph leaves such instructions out, because all ways would meet
in them.
"""

type NodeKey = tuple[str, str]
"""Identifies a node: ("step", id), ("output", name) or ("chain", ids of its steps)."""


class EdgeKind(StrEnum):
    """The reason why the graph has an edge between two nodes."""

    FLOW = "flow"
    """The edge's target uses the value of its source."""
    OLD = "old"
    """The edge's target reads the source's value as it was before the kernel overwrote it, from the same bytes or from
    a copy.
    """
    MISSING = "missing"
    """The program has this edge, and the schedule lacks it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node of the graph: a step of the schedule, a chain of steps, or an output."""

    key: NodeKey
    style: str
    """How the node looks: `define` (computes a value that a kernel overwrites), `kernel` (overwrites it), the kind of a
    read such as `stale`, `step`, `chain` or `output`.
    """
    title: str
    detail: str
    step: int | None
    verdict: Verdict | None = None
    steps: tuple[str, ...] = ()
    """Names of the instructions of a chain; empty for other nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """An edge from one node of the graph to another."""

    source: NodeKey
    target: NodeKey
    kind: EdgeKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """The nodes and edges of the drawing.

    Nodes are in topological order, if edges into the next iteration of a loop are left out.
    """

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    omitted: int
    """Number of outputs that the graph leaves out."""


def compute_graph(view: ScheduleView) -> Graph:
    """Returns the graph of the outputs that depend on a kernel or miss an edge from one.

    It has the `MAX_OUTPUTS` worst of them at most.
    """
    drawn = [output for output in view.outputs if output.path or output.missing]
    drawn.sort(key=lambda output: -VERDICT_ORDER.index(output.verdict))
    outputs = drawn[:MAX_OUTPUTS]
    edges = _contract(tuple(_list_edges(view, outputs)), _list_notable(view))
    steps = {step.id: step for step in view.steps}
    reads = _compute_read_kinds(view)
    nodes = tuple(_make_node(key, steps, reads, outputs) for key in _order(edges))
    return Graph(nodes=nodes, edges=edges, omitted=len(drawn) - len(outputs))


def _order(edges: Sequence[Edge]) -> list[NodeKey]:
    """Returns the keys of the nodes in topological order, as far as cycles allow it."""
    out: dict[NodeKey, list[NodeKey]] = defaultdict(list)
    for edge in edges:
        out[edge.source].append(edge.target)
    targets = {edge.target for edge in edges}
    keys = dict.fromkeys(key for edge in edges for key in (edge.source, edge.target))
    done: dict[NodeKey, None] = {}
    for root in sorted(keys, key=lambda key: key in targets):
        path = [(root, iter(out[root]))] if root not in done else []
        met = {root}
        while path:
            key, rest = path[-1]
            following = next((one for one in rest if one not in done and one not in met), None)
            if following is None:
                done.setdefault(key)
                path.pop()
            else:
                met.add(following)
                path.append((following, iter(out[following])))
    return list(reversed(done))


def _list_edges(view: ScheduleView, outputs: Sequence[OutputView]) -> Iterable[Edge]:
    """Returns each edge of the graph once: the steps along the way to each output, the missing edges, and reads of old
    values.
    """
    opcodes = {step.id: step.opcode for step in view.steps}
    known = frozenset(opcodes)
    edges: dict[tuple[NodeKey, NodeKey], EdgeKind] = {}
    kernels = {a.buffer: a.step for a in view.accesses if a.kind is AccessKind.HIDDEN_WRITE}
    defines = {a.buffer: a.step for a in view.accesses if a.kind is AccessKind.DEFINE}
    met: set[int] = set()
    for output in outputs:
        path = [step for step in output.path if step in known and opcodes[step] not in _PASSING]
        met |= set(path)
        keys: list[NodeKey] = [*(_step(step) for step in path), ("output", output.name)]
        for source, target in pairwise(keys):
            edges.setdefault((source, target), EdgeKind.FLOW)
        for missing in output.missing:
            if missing.kernel in known and missing.reader in known:
                met |= {missing.kernel, missing.reader}
                edges[_step(missing.kernel), _step(missing.reader)] = EdgeKind.MISSING
    for buffer, kernel in kernels.items():
        if buffer in defines and kernel in met and kernel in known and defines[buffer] in known:
            edges.setdefault((_step(defines[buffer]), _step(kernel)), EdgeKind.FLOW)
    for access in view.accesses:
        gets_old = access.kind is AccessKind.READ and access.read is ReadKind.STALE and access.step in met
        if gets_old and access.buffer in defines and defines[access.buffer] in known:
            kind = EdgeKind.OLD if access.place is not Place.RECOMPUTED else EdgeKind.FLOW
            if access.place is not Place.RECOMPUTED and access.step != defines[access.buffer]:
                edges.setdefault((_step(defines[access.buffer]), _step(access.step)), kind)
    return (Edge(source=s, target=t, kind=kind) for (s, t), kind in edges.items() if s != t)


def _list_notable(view: ScheduleView) -> frozenset[NodeKey]:
    """Returns the steps that access a mutated buffer: each is drawn on its own and never becomes part of a chain."""
    return frozenset(_step(access.step) for access in view.accesses if access.kind is not AccessKind.REUSE)


def _contract(edges: tuple[Edge, ...], notable: frozenset[NodeKey]) -> tuple[Edge, ...]:
    """Returns the edges after contraction: two or more successive steps that have one incoming and one outgoing edge
    each become one node, a "chain".
    """
    into: dict[NodeKey, list[Edge]] = defaultdict(list)
    out: dict[NodeKey, list[Edge]] = defaultdict(list)
    for edge in edges:
        into[edge.target].append(edge)
        out[edge.source].append(edge)

    def is_inner(key: NodeKey) -> bool:
        return (
            key[0] == "step"
            and key not in notable
            and len(into[key]) == len(out[key]) == 1
            and into[key][0].kind is out[key][0].kind is EdgeKind.FLOW
        )

    names: dict[NodeKey, NodeKey] = {}
    for key in list(out):
        if not is_inner(key) or is_inner(into[key][0].source):
            continue
        run = [key]
        while is_inner(out[run[-1]][0].target) and out[run[-1]][0].target not in run:
            run.append(out[run[-1]][0].target)
        if len(run) > 1:
            chain: NodeKey = ("chain", ",".join(number for _, number in run))
            names |= dict.fromkeys(run, chain)
    kept = {(names.get(e.source, e.source), names.get(e.target, e.target)): e.kind for e in edges}
    return tuple(Edge(source=s, target=t, kind=kind) for (s, t), kind in kept.items() if s != t)


def _compute_read_kinds(view: ScheduleView) -> dict[int, str]:
    """Returns a mapping from step id to style for the steps that access a mutated buffer: `stale` or `clobbered` for a
    step with such a read, else `kernel` for a hidden write, else the worst kind of read, else `define` for a step that
    computes the value that a kernel overwrites.
    """
    styles: dict[int, str] = {}
    for access in view.accesses:
        if access.kind is AccessKind.DEFINE:
            styles.setdefault(access.step, "define")
    for kind in READ_KIND_ORDER[1:]:
        for access in view.accesses:
            if access.kind is AccessKind.READ and access.read is kind:
                styles[access.step] = kind.value
    for access in view.accesses:
        if access.kind is AccessKind.HIDDEN_WRITE and styles.get(access.step) not in ("stale", "clobbered"):
            styles[access.step] = "kernel"
    return styles


def _make_node(
    key: NodeKey, steps: dict[int, ScheduleStep], reads: dict[int, str], outputs: Sequence[OutputView]
) -> Node:
    kind, name = key
    if kind == "output":
        verdict = next(output.verdict for output in outputs if output.name == name)
        return Node(key=key, style="output", title=name, detail=verdict.value, step=None, verdict=verdict)
    numbers = [int(number) for number in name.split(",")]
    first = steps[numbers[0]]
    if kind == "chain":
        run = tuple(steps[number].name for number in numbers)
        return Node(key=key, style="chain", title=f"{len(run)} steps", detail=run[-1], step=first.id, steps=run)
    style = reads.get(first.id, "kernel" if first.is_kernel else "step")
    return Node(key=key, style=style, title=first.name, detail=first.opcode, step=first.id)


def _step(number: int) -> NodeKey:
    return "step", str(number)


NODE_WIDTH = 164
NODE_HEIGHT = 50
ROW = 68
"""Vertical distance between the tops of two neighbours in a layer."""
GAP = 74
"""Horizontal distance between two layers, with space for the text on a missing edge."""
_CHARACTERS = 19
"""Number of monospace characters at 11 px that fit in a node."""
_SWEEPS = 4
_TURN = 44
"""Height that is kept free above the nodes for an edge that leads back to an earlier layer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedNode:
    """A node of the graph as a box at a position, with its title on at most two lines."""

    node: Node
    x: float
    y: float
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedEdge:
    """An edge of the graph as a curve at a position."""

    kind: EdgeKind
    path: str
    """The curve as SVG path data."""
    label: tuple[float, float]
    """(x, y) of the edge's text."""
    is_long: bool
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DataflowPicture:
    width: float
    height: float
    nodes: tuple[PlacedNode, ...]
    edges: tuple[PlacedEdge, ...]


def compute_dataflow(graph: Graph) -> DataflowPicture:
    """Returns the drawing of the graph, with a position for each node and edge.

    Width and height are 0 for an empty graph.
    """
    order = {node.key: position for position, node in enumerate(graph.nodes)}
    forward = [edge for edge in graph.edges if order[edge.source] < order[edge.target]]
    layer = _compute_layers(graph.nodes, forward)
    routes = {edge: _compute_route(edge, layer) for edge in graph.edges}
    layers = _order_layers(graph.nodes, layer, routes.values())
    turns_back = any(layer[edge.source] >= layer[edge.target] for edge in graph.edges)
    tops = _compute_tops(layers, routes.values(), _TURN if turns_back else 0.0)
    nodes = tuple(
        PlacedNode(
            node=node,
            x=_x(layer[node.key]),
            y=tops[node.key],
            lines=compute_lines(node.title, _CHARACTERS, 2 if node.style != "output" else 1),
        )
        for node in graph.nodes
    )
    titles = {node.key: node.title for node in graph.nodes}
    edges = tuple(_place_edge(edge, route, layer, tops, titles) for edge, route in routes.items())
    return DataflowPicture(
        width=_x(max(layer.values())) + NODE_WIDTH + 2 if nodes else 0,
        height=max((placed.y + NODE_HEIGHT + 4 for placed in nodes), default=0),
        nodes=nodes,
        edges=edges,
    )


def _x(layer: int) -> float:
    return 2 + layer * (NODE_WIDTH + GAP)


def _compute_layers(nodes: Sequence[Node], edges: Sequence[Edge]) -> dict[NodeKey, int]:
    """Returns the layer of each node: the length of the longest way to it. All outputs are in the last layer. edges:
    all edges except those that lead back to an earlier layer.
    """
    layer = {node.key: 0 for node in nodes}
    for node in nodes:
        for edge in edges:
            if edge.target == node.key:
                layer[node.key] = max(layer[node.key], layer[edge.source] + 1)
    last = max(layer.values(), default=0)
    return {key: last if key[0] == "output" else number for key, number in layer.items()}


def _compute_route(edge: Edge, layer: dict[NodeKey, int]) -> tuple[NodeKey, ...]:
    """Returns the keys of the points that an edge passes: its source, an invisible node in each layer between, which is
    added to `layer`, and its target.
    """
    crossed = range(layer[edge.source] + 1, layer[edge.target])
    inner: list[NodeKey] = [("way", f"{number} {edge.source} {edge.target}") for number in crossed]
    layer |= dict(zip(inner, crossed, strict=True))
    return (edge.source, *inner, edge.target)


def _order_layers(
    nodes: Sequence[Node], layer: dict[NodeKey, int], routes: Collection[tuple[NodeKey, ...]]
) -> list[list[NodeKey]]:
    """Returns the nodes of each layer from top to bottom, sorted by the mean position of their neighbours, in sweeps
    from left to right and back.
    """
    layers: list[list[NodeKey]] = [[] for _ in range(max(layer.values(), default=-1) + 1)]
    for key in dict.fromkeys((*(node.key for node in nodes), *(key for route in routes for key in route))):
        layers[layer[key]].append(key)
    before, after = _compute_neighbours(routes)
    for sweep in range(_SWEEPS):
        beside = before if sweep % 2 == 0 else after
        for own in layers if sweep % 2 == 0 else reversed(layers):
            places = {key: position for one in layers for position, key in enumerate(one)}
            means = {key: _mean([places[other] for other in beside[key]], places[key]) for key in own}
            own.sort(key=means.__getitem__)
    return layers


def _compute_tops(
    layers: list[list[NodeKey]], routes: Collection[tuple[NodeKey, ...]], space: float
) -> dict[NodeKey, float]:
    """Returns the y of each node's top: the mean of its predecessors, or lower where nodes above it need the space.
    space: height kept free above all nodes.
    """
    before, _ = _compute_neighbours(routes)
    tops: dict[NodeKey, float] = {}
    for own in layers:
        free = 2.0
        for key in own:
            wanted = _mean([tops[other] for other in before[key] if other in tops], free)
            tops[key] = max(free, wanted)
            free = tops[key] + (ROW if key[0] != "way" else ROW / 2)
    least = min(tops.values(), default=0.0)
    return {key: top - least + space + 2 for key, top in tops.items()}


def _compute_neighbours(
    routes: Collection[tuple[NodeKey, ...]],
) -> tuple[dict[NodeKey, list[NodeKey]], dict[NodeKey, list[NodeKey]]]:
    before: dict[NodeKey, list[NodeKey]] = defaultdict(list)
    after: dict[NodeKey, list[NodeKey]] = defaultdict(list)
    for route in routes:
        for source, target in pairwise(route):
            before[target].append(source)
            after[source].append(target)
    return before, after


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _place_edge(
    edge: Edge,
    route: tuple[NodeKey, ...],
    layer: dict[NodeKey, int],
    tops: dict[NodeKey, float],
    titles: dict[NodeKey, str],
) -> PlacedEdge:
    words = {EdgeKind.MISSING: "missing", EdgeKind.OLD: "old contents", EdgeKind.FLOW: "value"}
    title = f"{words[edge.kind]}: {titles[edge.source]} to {titles[edge.target]}"
    if layer[edge.source] >= layer[edge.target]:
        return _place_turn(edge, layer, tops, title)
    middle = NODE_HEIGHT / 2
    points: list[tuple[float, float]] = [(_x(layer[route[0]]) + NODE_WIDTH, tops[route[0]] + middle)]
    for key in route[1:-1]:
        points += [(_x(layer[key]), tops[key] + middle), (_x(layer[key]) + NODE_WIDTH, tops[key] + middle)]
    points.append((_x(layer[route[-1]]) - 7, tops[route[-1]] + middle))
    path = f"M{points[0][0]:g} {points[0][1]:g}"
    for (x, y), (to_x, to_y) in pairwise(points):
        half = (x + to_x) / 2
        path += f" C{half:g} {y:g} {half:g} {to_y:g} {to_x:g} {to_y:g}"
    is_long = len(points) > 2
    label = ((points[-2][0] + points[-1][0]) / 2, (points[-2][1] + points[-1][1]) / 2)
    if is_long and edge.kind is EdgeKind.OLD:
        label = (points[1][0] + 6, points[1][1] - 6)
    return PlacedEdge(kind=edge.kind, path=path, label=label, is_long=is_long, title=title)


def _place_turn(edge: Edge, layer: dict[NodeKey, int], tops: dict[NodeKey, float], title: str) -> PlacedEdge:
    """Returns an edge that leads back to an earlier layer, as a curve above the nodes."""
    x, y = _x(layer[edge.source]) + NODE_WIDTH * 0.6, tops[edge.source]
    to_x, to_y = _x(layer[edge.target]) + NODE_WIDTH * 0.4, tops[edge.target] - 7
    high = max(2.0, min(y, to_y) - _TURN)
    path = f"M{x:g} {y:g} C{x:g} {high:g} {to_x:g} {high:g} {to_x:g} {to_y:g}"
    label = ((x + to_x) / 2, (y + to_y) / 8 + 3 * high / 4)
    return PlacedEdge(kind=edge.kind, path=path, label=label, is_long=False, title=title)
