"""Everything that the rules look at: both programs, their dependence sets, the verdicts and the evidence."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from ligerdiag.analysis.carriers import compute_carriers
from ligerdiag.analysis.comparison import Comparison, OutputComparison
from ligerdiag.analysis.labels import LabelSpace
from ligerdiag.analysis.matching import Matching, match_writes
from ligerdiag.analysis.order import compute_logical_times
from ligerdiag.analysis.program_order import Intended
from ligerdiag.analysis.roundings import Rounding, find_roundings
from ligerdiag.analysis.schedule_order import Actual
from ligerdiag.analysis.search import ReadFinding, Runner, Search, find_latent
from ligerdiag.analysis.vanished import TracedCall, VanishedCall, find_vanished
from ligerdiag.analysis.writes import EffectsOf, HiddenWrite, find_hidden_writes, iterate_kernel_calls
from ligerdiag.effects.access import CallEffects
from ligerdiag.hlo.buffers import BufferAssignment
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.positions import Positions


@dataclass(frozen=True, kw_only=True, eq=False)
class Context:
    """Input of every rule. `outputs` is in the program's order."""

    program: HloModule
    """The unoptimized module."""
    optimized: HloModule
    buffers: BufferAssignment
    writes: tuple[HiddenWrite, ...]
    matching: Matching
    intended: Intended
    actual: Actual
    outputs: Mapping[str, OutputComparison]
    stale: tuple[ReadFinding, ...]
    clobbered: tuple[ReadFinding, ...]
    latent: tuple[ReadFinding, ...]
    vanished: tuple[VanishedCall, ...]
    calls: tuple[tuple[HloInstruction, CallEffects], ...]
    """Every custom call of the program as written, with its effects."""
    roundings: tuple[Rounding, ...] = ()

    @cached_property
    def logical_times(self) -> Mapping[int, int]:
        """Instruction id in the optimized module to LogicalTime."""
        return compute_logical_times(self.optimized)

    def optimized_call(self, write: HiddenWrite) -> HloInstruction | None:
        """The custom call in the optimized module that performs the write."""
        return next((w.call for w in self.actual.writes if w.write == write.index), None)


def compute_context(
    *,
    program: HloModule,
    optimized: HloModule,
    buffers: BufferAssignment,
    effects_of: EffectsOf,
    output_names: tuple[str, ...],
    traced_calls: tuple[TracedCall, ...],
) -> Context:
    """Run every analysis on one artifact."""
    writes = find_hidden_writes(program, effects_of)
    carriers = compute_carriers(program, writes)
    depth = max((w.loop_depth for w in writes), default=0)
    space = LabelSpace(len(writes), depth)
    positions = Positions(optimized, buffers)
    matching = match_writes(writes, optimized, positions, effects_of)
    run = Runner(program, optimized, buffers, positions, writes, space, carriers, effects_of, matching)
    intended, actual = Intended((), {}), Actual((), {}, (), {}, ())
    if writes:
        intended = run.run_intended()
        actual = run.run_actual(frozenset(path for path, tagged in intended.tagged.items() if tagged.labels))
    undecided = frozenset(w.index for w in matching.unplaced)
    comparison = Comparison(writes, space, matching.moved, undecided, actual.traced)
    outputs = {
        name: comparison.compare(
            intended.outputs[n] if n < len(intended.outputs) else 0, actual.outputs[n] if n < len(actual.outputs) else 0
        )
        for n, name in enumerate(output_names)
    }
    instructions = {i.id: i for c in optimized.computations.values() for i in c.instructions}
    search = Search(
        writes=writes,
        intended=intended,
        actual=actual,
        comparison=comparison,
        run=run,
        instructions=instructions,
    )
    found = search.run_search(outputs)
    return Context(
        program=program,
        optimized=optimized,
        buffers=buffers,
        writes=writes,
        matching=matching,
        intended=intended,
        actual=actual,
        outputs=found.outputs,
        stale=found.stale,
        clobbered=found.clobbered,
        latent=find_latent(writes, found.outputs, instructions),
        vanished=find_vanished(traced_calls, matching, intended, space),
        calls=tuple([(call, effects_of(call)) for _, call in iterate_kernel_calls(program)]),
        roundings=find_roundings(writes, output_names, run.run_intended, space.mark),
    )
