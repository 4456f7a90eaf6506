"""What the custom calls of one or several modules do, asked once for each distinct call."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ligerdiag.compile.pool import Pool
from ligerdiag.effects.access import CallEffects
from ligerdiag.effects.call import CustomCall
from ligerdiag.effects.declared import Contradiction, DeclaredEffects, apply_declarations
from ligerdiag.effects.isolated import compute_effects_isolated
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.shape import compute_byte_size, iterate_leaf_shapes

TIMEOUT = 60.0
"""Seconds that following one kernel's IR may take."""


@dataclass(slots=True, kw_only=True, eq=False)
class CallEffectsReader:
    """Effects of custom calls with what is declared of them, kept: the same ones are asked about again and again."""

    cache: Path | None
    declared: Sequence[DeclaredEffects] = ()
    """What is believed of operands whose effects are unknown."""
    readers: Pool | None = None
    """Workers that read kernels with the Triton that made them, where that is not ours."""
    _known: dict[CustomCall, tuple[CallEffects, tuple[Contradiction, ...]]] = field(
        default_factory=dict[CustomCall, tuple[CallEffects, tuple[Contradiction, ...]]]
    )
    _described: dict[int, tuple[HloInstruction, CustomCall]] = field(
        default_factory=dict[int, tuple[HloInstruction, CustomCall]]
    )
    """By the instruction's `id()`, which is its own as long as it is kept."""

    def read(self, *modules: HloModule, others: Sequence[CustomCall] = ()) -> None:
        """Finds out about all custom calls of the modules, and about the others, together."""
        self._described.clear()  # an instruction holds its operands, and so the whole of an earlier module
        own = [self._describe(call) for module in modules for _, call in module.iterate_custom_calls()]
        calls = dict.fromkeys((*own, *others))
        missing = [call for call in calls if call not in self._known]
        if not missing:
            return
        found = compute_effects_isolated(missing, cache_directory=self.cache, timeout=TIMEOUT, readers=self.readers)
        for call, effects in zip(missing, found, strict=True):
            self._known[call] = apply_declarations(effects, target=call.target, declarations=self.declared)

    def find(self, call: HloInstruction) -> CallEffects:
        """The effects of a custom call of a module that was read."""
        return self._known[self._describe(call)][0]

    def find_other(self, call: CustomCall) -> CallEffects:
        """The effects of one of the others that were read."""
        return self._known[call][0]

    def find_contradictions(self, call: HloInstruction) -> tuple[Contradiction, ...]:
        """What is declared of a custom call of a module that was read, and is not so."""
        return self._known[self._describe(call)][1]

    def _describe(self, call: HloInstruction) -> CustomCall:
        known = self._described.get(id(call))
        if known is None:
            known = self._described[id(call)] = call, _describe(call)
        return known[1]


def _describe(call: HloInstruction) -> CustomCall:
    leaves = [compute_byte_size(leaf) for _, leaf in iterate_leaf_shapes(call.shape)]
    return CustomCall(
        target=call.proto.custom_call_target,
        backend_config=call.proto.backend_config,
        operands=len(call.operands),
        outputs=len(leaves),
        sizes=(*(compute_byte_size(operand.shape) for operand in call.operands), *leaves),
    )
