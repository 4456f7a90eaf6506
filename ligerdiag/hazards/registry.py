"""All rules, by id and by name. Ids are never reused."""

from ligerdiag.analysis.context import Context
from ligerdiag.errors import InputError
from ligerdiag.findings import Finding
from ligerdiag.hazards import (
    ld001_stale_read,
    ld002_stale_copy,
    ld003_latent_order,
    ld004_clobbered_read,
    ld006_undeclared_write,
    ld007_vanished_call,
    ld014_unknown_effect,
)
from ligerdiag.hazards.rule import Rule

RULES: tuple[Rule, ...] = (
    ld001_stale_read.RULE,
    ld002_stale_copy.RULE,
    ld003_latent_order.RULE,
    ld004_clobbered_read.RULE,
    ld006_undeclared_write.RULE,
    ld007_vanished_call.RULE,
    ld014_unknown_effect.RULE,
)


def get_rule(id_or_name: str) -> Rule:
    """The rule `LD001` or `stale-read`, in any case. Raises InputError that lists the known ones."""
    wanted = id_or_name.lower()
    for rule in RULES:
        if wanted in (rule.id.lower(), rule.name):
            return rule
    known = ", ".join(f"{rule.id} {rule.name}" for rule in RULES)
    raise InputError(f"no rule `{id_or_name}`; known: {known}")


def check_all(context: Context) -> tuple[Finding, ...]:
    """Findings of every rule, in the order of the rules."""
    return tuple(finding for rule in RULES for finding in rule.check(context))
