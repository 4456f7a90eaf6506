"""What there is to choose from: cases and rules."""

from collections.abc import Sequence

from ligerdiag.compile.cache import Cache
from ligerdiag.compile.job import CaseSpec
from ligerdiag.compile.pool import Pool
from ligerdiag.compile.service import discover_cases
from ligerdiag.hazards.registry import RULES
from ligerdiag.hazards.rule import Rule


def list_cases(selectors: Sequence[str]) -> tuple[CaseSpec, ...]:
    """The cases that the selectors mean. Raises as `check` does."""
    with Pool(cache=Cache()) as pool:
        return discover_cases(selectors, pool=pool)


def list_rules() -> tuple[Rule, ...]:
    """All rules, by id."""
    return RULES
