"""What a module says about its outputs before anything is scheduled: which hidden writes reach them whatever the order.

The module is judged under the schedules of `synthetic_schedules`, on storage that must be shared (`hlo.must_alias`);
`verdict.combination` says what follows. An output that is forced is right by a path of data or control from the write to it;
one that is lost is computed from something else than what the kernel wrote: a copy, a shard or the value before a cast.
A module with a schedule is judged under that, too. What XLA's buffer assignment puts into the same bytes by chance is not
seen here. Not judged is a module that hands several values through one of Shardy's custom calls, round a manual
computation: which result is which operand is not told apart.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ligerdiag.analysis.context import Context, compute_context
from ligerdiag.analysis.verdict.comparison import Standing, choose_verdict, find_standing
from ligerdiag.analysis.writes import find_hidden_operands
from ligerdiag.bisect.passes.synthetic_schedules import SchedulePolicy, inline_calls, schedule_module
from ligerdiag.effects.isolated import CallEffectsReader
from ligerdiag.hlo.aliasing import build_must_alias_buffers
from ligerdiag.hlo.buffers import BufferAssignment
from ligerdiag.hlo.custom_calls import CallTrait, is_call_with
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.shape import iterate_leaves
from ligerdiag.model.findings import Verdict


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Judgement:
    """One module, judged."""

    module: HloModule
    """As it was judged: calls are inlined where XLA has not done so yet."""
    standings: Mapping[str, Standing]
    """By output name."""
    synthetic: Mapping[SchedulePolicy, Context]
    """WRITTEN is there only if it was needed."""
    scheduled: Context | None
    """Under the module's own schedule."""

    @property
    def verdicts(self) -> Mapping[str, Verdict]:
        """By output name: of the schedule; where there is none, fresh if forced, latent if open, else what it is if lost."""
        if self.scheduled is not None:
            return {name: output.verdict for name, output in self.scheduled.verdicts.outputs.items()}
        early = self.synthetic[SchedulePolicy.EARLY].verdicts.outputs
        return {name: choose_verdict(standing, early[name].verdict) for name, standing in self.standings.items()}


def judge_module(
    *,
    program: HloModule,
    module: HloModule,
    buffers: BufferAssignment | None,
    effects: CallEffectsReader,
    output_names: tuple[str, ...],
) -> Judgement | None:
    """Judge one module between two passes against the program as written; None where it is not judged.

    buffers: XLA's own, for the module's own schedule. Raises ArtifactError as `inline_calls`.
    """
    if _has_boundary(module):
        return None
    effects.read(program)
    effects.read(module)
    if not module.is_scheduled:
        module = inline_calls(module)
    shared = build_must_alias_buffers(module)

    def judge(judged: HloModule, stored: BufferAssignment) -> Context:
        return compute_context(
            program=program,
            optimized=judged,
            buffers=stored,
            effects_of=effects.find,
            output_names=output_names,
            traced_calls=(),
        )

    def is_kernel(call: HloInstruction) -> bool:
        return bool(find_hidden_operands(call, effects.find(call)))

    synthetic = {
        policy: judge(schedule_module(module, is_kernel, policy), shared)
        for policy in (SchedulePolicy.LATE, SchedulePolicy.EARLY)
    }
    if Standing.LOST in _compare(synthetic).values():
        policy = SchedulePolicy.WRITTEN
        synthetic[policy] = judge(schedule_module(module, is_kernel, policy), shared)
    return Judgement(
        module=module,
        standings=_compare(synthetic),
        synthetic=synthetic,
        scheduled=judge(module, shared if buffers is None else buffers) if module.is_scheduled else None,
    )


def _has_boundary(module: HloModule) -> bool:
    return any(
        is_call_with(call, CallTrait.SHARDY) and sum(1 for _ in iterate_leaves(call.shape)) > 1
        for _, call in module.iterate_custom_calls()
    )


def _compare(synthetic: Mapping[SchedulePolicy, Context]) -> Mapping[str, Standing]:
    names = next(iter(synthetic.values())).verdicts.outputs
    return {
        name: find_standing({context.verdicts.outputs[name].verdict for context in synthetic.values()})
        for name in names
    }
