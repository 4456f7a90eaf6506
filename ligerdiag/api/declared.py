"""What is declared of custom calls, by a case or by the configuration."""

from collections.abc import Sequence

from ligerdiag.compile.job import CaseSpec
from ligerdiag.effects.declared import DeclaredEffects, parse_declarations


def parse_declared(case: CaseSpec) -> tuple[DeclaredEffects, ...]:
    """What the case itself declares of custom calls; raises InputError."""
    return parse_declarations(case.effects, place=f"`effects` of case `{case.id}` for `{{}}`")


def list_declared(effects: Sequence[DeclaredEffects]) -> tuple[str, ...]:
    """A line for each declaration: a verdict can hang on it."""
    names = dict.fromkeys(one.name for one in effects)
    return tuple(f"what `{name}` does is declared, and believed where it could not be told" for name in names)
