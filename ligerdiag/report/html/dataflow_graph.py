"""The way from the kernel to the outputs as a small graph: the steps on it, and the edge that is missing."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
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

MAX_OUTPUTS = 6
"""Ends of the graph; the wrong ones come first."""

_PASSING = having(Trait.MAKES_TUPLE, Trait.TAKES_ELEMENT) | {"while"}
"""Opcodes that only hand values on: drawn, all ways would meet in them."""

type NodeKey = tuple[str, str]
"""("step", id), ("output", name) or ("chain", ids): what tells nodes apart."""


class EdgeKind(StrEnum):
    """The connection from one node to another."""

    FLOW = "flow"
    """A value is used."""
    OLD = "old"
    """The value from before the kernel is used, directly or as a copy."""
    MISSING = "missing"
    """The author means it; the schedule does not have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A step, a run of steps or an output."""

    key: NodeKey
    style: str
    """`define`, `kernel`, the kind of a read, `step`, `chain` or `output`."""
    title: str
    detail: str
    step: int | None
    verdict: Verdict | None = None
    steps: tuple[str, ...] = ()
    """Names of the run's instructions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """From one node to another."""

    source: NodeKey
    target: NodeKey
    kind: EdgeKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """Nodes in an order in which every edge leads forward, but for those that carry a value into a loop's next turn."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    omitted: int
    """Outputs that are not drawn."""


def compute_graph(view: ScheduleView) -> Graph:
    """Of the outputs whose way is known."""
    drawn = [output for output in view.outputs if output.path or output.missing]
    drawn.sort(key=lambda output: -VERDICT_ORDER.index(output.verdict))
    outputs = drawn[:MAX_OUTPUTS]
    edges = _contract(tuple(_list_edges(view, outputs)), _list_notable(view))
    steps = {step.id: step for step in view.steps}
    reads = _compute_read_kinds(view)
    nodes = tuple(_make_node(key, steps, reads, outputs) for key in _order(edges))
    return Graph(nodes=nodes, edges=edges, omitted=len(drawn) - len(outputs))


def _order(edges: Sequence[Edge]) -> list[NodeKey]:
    """Returns the nodes in an order in which each comes after all that lead to it, as far as there is no circle."""
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
    """Lists each edge once: the existing ways, the missing edge, and the way of the old value."""
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
            kind = EdgeKind.OLD if access.place is not Place.COMPUTED_ANEW else EdgeKind.FLOW
            if access.place is not Place.COMPUTED_ANEW and access.step != defines[access.buffer]:
                edges.setdefault((_step(defines[access.buffer]), _step(access.step)), kind)
    return (Edge(source=s, target=t, kind=kind) for (s, t), kind in edges.items() if s != t)


def _list_notable(view: ScheduleView) -> frozenset[NodeKey]:
    """Nodes that are never part of a run."""
    return frozenset(_step(access.step) for access in view.accesses if access.kind is not AccessKind.REUSE)


def _contract(edges: tuple[Edge, ...], notable: frozenset[NodeKey]) -> tuple[Edge, ...]:
    """Runs of two or more steps with one way in and one way out become one node."""
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
    """Step id to the style of what it does to a mutated buffer: the worst read wins, and a wrong one of a kernel's."""
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
