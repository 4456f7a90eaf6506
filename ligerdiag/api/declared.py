"""The notes of a report about declared effects."""

from collections.abc import Sequence

from ligerdiag.effects.declared import DeclaredEffects


def list_declared(effects: Sequence[DeclaredEffects]) -> tuple[str, ...]:
    """Returns a line for each declaration: a verdict can hang on it."""
    names = dict.fromkeys(one.name for one in effects)
    return tuple(f"what `{name}` does is declared, and believed where it could not be told" for name in names)
