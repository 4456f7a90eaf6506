"""Lists the claims of `ligerdiag.provenance`: which values of the program an array of the schedule equals.

The evidence of a claim is that of all witnesses that name this value, such as `structure+tag`; `?` marks one that is not
firm.
"""

from collections.abc import Iterator

from ligerdiag.hlo.module import HloModule
from ligerdiag.hlo.shape import iterate_leaf_shapes
from ligerdiag.provenance.identification import Identification
from ligerdiag.provenance.identity import ProgramValue, ValueIdentity
from tools.fuzz.fingerprints import Claim, name_argument


def list_identities(program: HloModule, optimized: HloModule) -> list[Claim]:
    """Returns a claim for each value with which an array of the schedule is identified. Both modules have tags as the
    analysis has them.
    """
    return list(_iterate(Identification(program, optimized)))


def _iterate(identification: Identification) -> Iterator[Claim]:
    for one in identification.optimized.instructions:
        for index, _ in iterate_leaf_shapes(one.shape):
            identity = identification.identify(one, index)
            for value in sorted(identity.values):
                yield Claim(
                    instruction=one.id,
                    path=value.path if value.argument < 0 else name_argument(value.argument),
                    evidence=_name_evidence(identity, value),
                    index=index,
                    operation_index=value.index,
                )


def _name_evidence(identity: ValueIdentity, value: ProgramValue) -> str:
    found = {f"{one.kind.value}{'' if one.is_firm else '?'}" for one in identity.evidence if value in one.values}
    return "+".join(sorted(found))
