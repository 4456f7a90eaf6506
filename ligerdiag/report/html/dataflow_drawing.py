"""Places for the dataflow's nodes, left to right: layers by longest way, crossings few, long edges round other nodes."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ligerdiag.report.html.dataflow_graph import Edge, EdgeKind, Graph, Node, NodeKey
from ligerdiag.report.html.environment import compute_lines

NODE_WIDTH = 164
NODE_HEIGHT = 50
ROW = 68
"""From the top of one node to the top of the next."""
GAP = 74
"""Between layers; leaves room for the word on a missing edge."""
_CHARACTERS = 19
"""Of monospace at 11 px in a node."""
_SWEEPS = 4
_TURN = 44
"""Above the nodes, for an edge that leads back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedNode:
    """A box with two lines at most of a name."""

    node: Node
    x: float
    y: float
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedEdge:
    """A curve."""

    kind: EdgeKind
    path: str
    """SVG path data."""
    label: tuple[float, float]
    """The place of a word about it; an edge that passes no layer has no room for "old contents"."""
    is_long: bool
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DataflowPicture:
    width: float
    height: float
    nodes: tuple[PlacedNode, ...]
    edges: tuple[PlacedEdge, ...]


def compute_dataflow(graph: Graph) -> DataflowPicture:
    """Places for all of it; width and height 0 for an empty one."""
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
    """Longest way from the left; outputs all stand in the last one."""
    layer = {node.key: 0 for node in nodes}
    for node in nodes:
        for edge in edges:
            if edge.target == node.key:
                layer[node.key] = max(layer[node.key], layer[edge.source] + 1)
    last = max(layer.values(), default=0)
    return {key: last if key[0] == "output" else number for key, number in layer.items()}


def _compute_route(edge: Edge, layer: dict[NodeKey, int]) -> tuple[NodeKey, ...]:
    """Returns the edge's nodes, with a place of its own in each layer that it crosses."""
    crossed = range(layer[edge.source] + 1, layer[edge.target])
    inner: list[NodeKey] = [("way", f"{number} {edge.source} {edge.target}") for number in crossed]
    layer |= dict(zip(inner, crossed, strict=True))
    return (edge.source, *inner, edge.target)


def _order_layers(
    nodes: Sequence[Node], layer: dict[NodeKey, int], routes: Collection[tuple[NodeKey, ...]]
) -> list[list[NodeKey]]:
    """Barycentres, forth and back."""
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
    layers: list[list[NodeKey]], routes: Collection[tuple[NodeKey, ...]], room: float
) -> dict[NodeKey, float]:
    """room: above all of them. Each as near to the middle of what leads to it as its neighbours above allow."""
    before, _ = _compute_neighbours(routes)
    tops: dict[NodeKey, float] = {}
    for own in layers:
        free = 2.0
        for key in own:
            wanted = _mean([tops[other] for other in before[key] if other in tops], free)
            tops[key] = max(free, wanted)
            free = tops[key] + (ROW if key[0] != "way" else ROW / 2)
    least = min(tops.values(), default=0.0)
    return {key: top - least + room + 2 for key, top in tops.items()}


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
    """Over the nodes, from the top of one to the top of the other."""
    x, y = _x(layer[edge.source]) + NODE_WIDTH * 0.6, tops[edge.source]
    to_x, to_y = _x(layer[edge.target]) + NODE_WIDTH * 0.4, tops[edge.target] - 7
    high = max(2.0, min(y, to_y) - _TURN)
    path = f"M{x:g} {y:g} C{x:g} {high:g} {to_x:g} {high:g} {to_x:g} {to_y:g}"
    label = ((x + to_x) / 2, (y + to_y) / 8 + 3 * high / 4)
    return PlacedEdge(kind=edge.kind, path=path, label=label, is_long=False, title=title)
