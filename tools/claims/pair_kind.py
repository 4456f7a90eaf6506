"""Mutates pairs of modules with `metadata`, `buffers` and `kernels`."""

from collections.abc import Sequence
from pathlib import Path
from random import Random

from ligerdiag.errors import LigerdiagError
from ligerdiag.model.report import Identity, refuse
from ligerdiag.model.report import Judged as JudgedCase
from tools.claims.judging import Judged, judge
from tools.claims.pairs import Pair
from tools.claims.tally import mutate
from tools.claims.trial import Described, Trial, describe, make_trial


class PairKind:
    """Mutates the protobufs of both modules."""

    name = "pairs"

    def __init__(self, pairs: Sequence[Pair], effects_cache: Path) -> None:
        self._pairs = pairs
        self._effects_cache = effects_cache
        self._before = {pair.name: judge(pair, effects_cache) for pair in pairs}

    def run(self, random: Random) -> Trial:
        """Runs the mutation of this number, the same as in `tally`."""
        pair, applied = mutate(self._pairs, random.getrandbits(48))
        after = judge(pair, self._effects_cache)
        words = f"{pair.name} {'+'.join(one.name for one in applied)}"
        claims = [one.claim for one in applied]
        return make_trial(words, self._before[pair.name], describe_judged(pair.name, after), claims)

    def close(self) -> None:
        """Does nothing: there is nothing to close."""


def describe_judged(name: str, judged: Judged) -> Described:
    """Returns the report that `inspect` makes of it."""
    identity = Identity(id=name, target="sm_9.0a", artifact=name)
    if judged.inspection is None:
        return describe(refuse(identity, LigerdiagError(judged.refusal)))
    return describe(JudgedCase(identity=identity, result=judged.inspection, seconds=0.5))
