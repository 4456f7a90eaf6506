"""Ways through a schedule: from a kernel or a reader to the program's outputs, along what is computed from what."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush

from ligerdiag.analysis.value_sources import ValueSources
from ligerdiag.hlo.dataflow import find_way, search
from ligerdiag.hlo.positions import Definition


@dataclass(slots=True, eq=False)
class ValueFlow(ValueSources):
    """The graph, and questions about it."""

    _reached: dict[Definition, int] | None = None
    _nodes: dict[int, list[Definition]] | None = None
    _users: dict[Definition, list[Definition]] | None = None

    def find_path(
        self, starts: tuple[Definition, ...], is_target: Callable[[Definition], bool]
    ) -> tuple[Definition, ...]:
        """A shortest way from a target to one of `starts`, both ends included; () where there is none."""
        return find_way(starts, self.list_sources, is_target)[::-1]

    def name_steps(self, path: tuple[Definition, ...]) -> tuple[int, ...]:
        """Ids of the steps on a path, neighbours that are one step once."""
        steps = [self.find_step(number) for number, _ in path]
        return tuple([step for n, step in enumerate(steps) if n == 0 or steps[n - 1] != step])

    def compute_reach(self) -> Mapping[Definition, int]:
        """Node to the outputs that are computed from it, a bit for each by its number."""
        if self._reached is not None:
            return self._reached
        reached = self._reached = {}
        pending: list[tuple[int, Definition]] = []
        waiting: set[Definition] = set()

        def add(node: Definition, bits: int) -> None:
            if bits & ~reached.get(node, 0):
                reached[node] = reached.get(node, 0) | bits
                if node not in waiting:
                    waiting.add(node)
                    heappush(pending, (-self.find_time(node[0]), node))

        for number, nodes in enumerate(self.list_output_nodes()):
            for node in nodes:
                add(node, 1 << number)
        while pending:  # late nodes first, so that few are met twice
            _, node = heappop(pending)
            waiting.discard(node)
            for source in self.list_sources(node):
                add(source, reached[node])
        return reached

    def list_nodes(self, step: int) -> tuple[Definition, ...]:
        """The nodes of a step from which some output is computed."""
        if self._nodes is None:
            self._nodes = {}
            for node in self.compute_reach():
                self._nodes.setdefault(self.find_step(node[0]), []).append(node)
        return tuple(self._nodes.get(step, ()))

    def find_ways(self, starts: Iterable[Definition]) -> Mapping[Definition, Definition | None]:
        """Each node that is computed from `starts` and reaches an output, to the one before it on a shortest way."""
        if self._users is None:
            self._users = {}
            for node in self.compute_reach():
                for source in self.list_sources(node):
                    self._users.setdefault(source, []).append(node)
        users = self._users
        return search(starts, lambda node: users.get(node, ()))
