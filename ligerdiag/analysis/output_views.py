"""How each output comes about: its way through the schedule, and the ways that are missing."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ligerdiag.analysis.context import Context
from ligerdiag.analysis.output_sentences import OutputSentences
from ligerdiag.analysis.value_flow import ValueFlow
from ligerdiag.analysis.value_sources import name_written
from ligerdiag.findings import Verdict
from ligerdiag.hlo.positions import Definition
from ligerdiag.schedule_view import Access, MissingEdge, OutputView, ReadKind
from ligerdiag.words import count_of, join_words

MOST_ON_PATH = 100
"""Steps of one way that are shown."""
_NAMED = 20
"""Outputs that one note names."""


@dataclass(slots=True, eq=False)
class OutputViews:
    """Looks at the outputs of one schedule."""

    context: Context
    accesses: tuple[Access, ...]
    long: list[str] = field(default_factory=list[str])
    """Outputs of whose way the beginning is left out."""
    lost: list[str] = field(default_factory=list[str])
    """Outputs whose way could not be followed."""
    unexplained: list[str] = field(default_factory=list[str])
    """Outputs that miss what a kernel wrote, nobody knows from where on."""
    _kernels: Mapping[int, int] = field(init=False)
    """HiddenWrite index to the step that performs it first."""
    _ways: dict[frozenset[Definition | int], Mapping[Definition, Definition | None]] = field(
        default_factory=dict[frozenset[Definition | int], Mapping[Definition, Definition | None]]
    )
    """What was found from these starts."""

    def __post_init__(self) -> None:
        kernels: dict[int, int] = {}
        for one in self.context.followed.performed:
            kernels.setdefault(one.write.index, one.kernel)
        self._kernels = kernels

    @property
    def flow(self) -> ValueFlow:
        """What is computed from what."""
        return self.context.followed.flow

    def describe(self) -> tuple[OutputView, ...]:
        """One for each output, in the program's order."""
        sentences = OutputSentences(self.context, self.accesses)
        nodes = list(self.flow.list_output_nodes()) if self.context.followed.performed else []
        found: list[OutputView] = []
        for number, (name, output) in enumerate(self.context.verdicts.outputs.items()):
            path: tuple[int, ...] = ()
            if number < len(nodes):
                path = self._find_path(name, number, output.verdict, nodes[number])
            missing = tuple(dict.fromkeys(self._list_missing(name)))
            if (
                output.verdict is Verdict.STALE
                and not missing
                and not self.context.verdicts.misses_only_gone_calls(name)
            ):
                self.unexplained.append(name)
            sentence = sentences.describe(name, number)
            found.append(OutputView(name=name, verdict=output.verdict, path=path, missing=missing, sentence=sentence))
        return tuple(found)

    def list_notes(self) -> Iterator[str]:
        """What could not be shown, a line each."""
        if self.lost:
            yield f"the ways to {name_outputs(self.lost)} could not be followed"
        if self.long:
            yield f"of the ways to {name_outputs(self.long)} only the last {MOST_ON_PATH} steps are shown"
        if self.unexplained:
            yield f"who misses what a kernel wrote on the way to {name_outputs(self.unexplained)} could not be told"

    def _list_missing(self, name: str) -> Iterator[MissingEdge]:
        named = [(one.write.index, one.reader.id) for one in self.context.verdicts.stale if name in one.outputs]
        made = [(one.buffer, one.step) for one in self.accesses if one.read is ReadKind.STALE and name in one.outputs]
        for write, reader in named or made:
            kernel = self._kernels.get(write)
            if kernel is not None:
                yield MissingEdge(buffer=write, kernel=kernel, reader=self.flow.find_step(reader))

    def _find_path(self, name: str, number: int, verdict: Verdict, nodes: tuple[Definition, ...]) -> tuple[int, ...]:
        found: tuple[Definition, ...] = ()
        for starts in self._list_starts(name, verdict):
            found = self._find_way(starts, nodes)
            if found:
                break
        if found and verdict is not Verdict.STALE:  # a reader behind the kernel: the way begins there
            found = (*[one for one in self.flow.list_sources(found[0]) if one[1] and one[1][0] < 0][:1], *found)
        steps = self.flow.name_steps(found)
        if not steps and (verdict is not Verdict.FRESH or self._is_touched(number)):
            self.lost.append(name)
        if len(steps) > MOST_ON_PATH:
            self.long.append(name)
        return steps[-MOST_ON_PATH:]

    def _find_way(self, starts: frozenset[Definition | int], ends: tuple[Definition, ...]) -> tuple[Definition, ...]:
        """A shortest way from one of `starts`, nodes or ids of steps, to one of `ends`; () where there is none."""
        before = self._ways.get(starts)
        if before is None:
            nodes = [n for one in starts for n in (self.flow.list_nodes(one) if isinstance(one, int) else (one,))]
            before = self._ways[starts] = self.flow.find_ways(sorted(nodes))
        ways: list[tuple[Definition, ...]] = []
        for end in ends:
            if end in before:
                way = [end]
                while (earlier := before[way[-1]]) is not None:
                    way.append(earlier)
                ways.append(tuple(reversed(way)))
        return min(ways, key=len, default=())

    def _list_starts(self, name: str, verdict: Verdict) -> Iterator[frozenset[Definition | int]]:
        """Where the way may begin, what tells most first: nodes, or ids of steps."""
        context, verdicts = self.context, self.context.verdicts
        findings = {
            Verdict.STALE: verdicts.stale,
            Verdict.CLOBBERED: verdicts.clobbered,
            Verdict.LATENT: verdicts.latent,
        }
        for finding in findings.get(verdict, ()):
            if name in finding.outputs:
                yield frozenset({self.flow.find_step(finding.reader.id)})
        for race in context.concurrency.races:
            if verdict is Verdict.UNKNOWN:
                yield frozenset({self.flow.find_step(race.reader.id)})
        if verdict is not Verdict.STALE:
            yield frozenset(name_written(write, kernel) for write, kernel in self._kernels.items())
            yield frozenset(self._kernels.values())
        if verdict in (Verdict.STALE, Verdict.UNKNOWN) and (others := self._list_suspects(name)):
            yield others

    def _list_suspects(self, name: str) -> frozenset[Definition | int]:
        """Steps that may be who misses what a kernel wrote, where no finding says so."""
        verdicts = (Verdict.STALE, Verdict.UNKNOWN)
        wrong = {cause.write for cause in self.context.verdicts.outputs[name].causes if cause.verdict in verdicts}
        doubtful = (ReadKind.UNKNOWN, ReadKind.STALE)
        return frozenset(
            one.step for one in self.accesses if one.buffer in wrong and one.read in doubtful and name in one.outputs
        )

    def _is_touched(self, number: int) -> bool:
        """Whether the output depends on what a kernel wrote."""
        labels = self.context.actual.outputs
        return number < len(labels) and bool(labels[number])


def name_outputs(names: list[str]) -> str:
    """`a`, `b` and `c`, of many the first."""
    shown = [f"`{name}`" for name in names[:_NAMED]]
    left = len(names) - len(shown)
    return join_words([*shown, count_of(left, "more output")] if left else shown)
