"""Mutates kernels in pairs of modules: the Triton IR in the payloads, on one side or on both."""

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from random import Random

from ligerdiag.effects.access import Access, CallEffects
from ligerdiag.effects.call import CustomCall
from ligerdiag.effects.effects_worker import EFFECTS_WORKER
from ligerdiag.effects.isolated import compute_effects_isolated
from ligerdiag.hlo.xla_pb2 import HloInstructionProto, HloProto, ShapeProto
from ligerdiag.toolchains.toolchain import current_toolchain
from ligerdiag.workers.pool import Pool
from tools.claims.judging import judge
from tools.claims.mutation import Claim
from tools.claims.pair_kind import describe_judged
from tools.claims.pairs import Pair, iterate_kernel_calls, list_instructions
from tools.claims.payloads import PAYLOADS, Changed, PayloadMutation, read_payload
from tools.claims.trial import Trial, make_trial

TARGET = "triton_kernel_call"
SECONDS = 600.0
"""Wall seconds for following one kernel."""
_ELEMENT_BYTES = 4
"""Bytes per element of all arrays of the seeds' kernels."""


class PayloadKind:
    """Mutates kernels, and judges both their effects and the outputs."""

    name = "triton"

    def __init__(self, pairs: Sequence[Pair], effects_cache: Path) -> None:
        self._pairs = pairs
        self._effects_cache = effects_cache
        self._readers = Pool(toolchain=current_toolchain(), jobs=1, timeout=SECONDS, module=EFFECTS_WORKER)
        self._before = {pair.name: judge(pair, effects_cache, self._readers) for pair in pairs}

    def run(self, random: Random) -> Trial:
        """Runs one mutation of one payload, or of all payloads on the chosen sides."""
        pair = random.choice(self._pairs).copy()
        sides = pair.choose_sides(random)
        calls = [call for side in sides for call in iterate_kernel_calls(side)]
        target = random.choice([one for one in calls if one.custom_call_target == TARGET])
        described, payload = _describe(target, sides), target.backend_config
        mutations = list(PAYLOADS.values())
        while True:
            chosen = random.choices(mutations, [one.weight for one in mutations])[0]
            changed = chosen.apply(read_payload(payload), random)
            if changed is not None:
                break
        for call in calls:
            if call.backend_config == payload:
                call.backend_config = changed.payload
        others = self._find_false_effects(chosen, described, changed)
        after = judge(pair, self._effects_cache, self._readers)
        words = f"{pair.name} {chosen.name} on {'both' if len(sides) == 2 else sides[0].hlo_module.name}"
        claims = _list_claims(chosen, pair, sides)
        return make_trial(words, self._before[pair.name], describe_judged(pair.name, after), claims, others)

    def close(self) -> None:
        """Ends the workers."""
        self._readers.close()

    def _find_false_effects(self, chosen: PayloadMutation, call: CustomCall, changed: Changed) -> tuple[str, ...]:
        mutated = replace(call, backend_config=changed.payload)
        before, after = (self._compute_effects(one) for one in (call, mutated))
        was, now = (*before.operands, *before.outputs), (*after.operands, *after.outputs)
        if changed.is_unreadable and set(now) != {Access.UNKNOWN} and was != now:
            return (f"{chosen.name}: known effects of an unreadable kernel: {_render(now)}",)
        kept = {number for number, access in enumerate(was) if changed.is_kept and access.writes}
        lost = [number for number in sorted(changed.written | kept) if not now[number].writes]
        return tuple(f"{chosen.name}: the write of buffer {number} is not seen: {_render(now)}" for number in lost)

    def _compute_effects(self, call: CustomCall) -> CallEffects:
        (effects,) = compute_effects_isolated(
            [call], cache_directory=self._effects_cache, timeout=SECONDS, readers=self._readers
        )
        return effects


def _describe(call: HloInstructionProto, sides: Sequence[HloProto]) -> CustomCall:
    """Returns the call as the analysis describes it, so that each kernel is followed once."""
    holder = next(side for side in sides if any(one is call for one in list_instructions(side)))
    shapes = {one.id: one.shape for one in list_instructions(holder)}
    outputs = list(call.shape.tuple_shapes) or [call.shape]
    return CustomCall(
        target=TARGET,
        backend_config=call.backend_config,
        operands=len(call.operand_ids),
        outputs=len(outputs),
        sizes=tuple(_count_bytes(one) for one in (*(shapes[key] for key in call.operand_ids), *outputs)),
    )


def _count_bytes(shape: ShapeProto) -> int:
    return prod(shape.dimensions) * _ELEMENT_BYTES


def _list_claims(chosen: PayloadMutation, pair: Pair, sides: Sequence[object]) -> list[Claim]:
    """Returns the claims. A program that writes less, or both sides writing less, is another program: there is no claim
    about its outputs.
    """
    if chosen.claim is Claim.STALE_STAYS and not (len(sides) == 1 and sides[0] is pair.optimized):
        return []
    return [] if chosen.claim is None else [chosen.claim]


def _render(accesses: Sequence[Access]) -> str:
    return " ".join(access.value for access in accesses)
