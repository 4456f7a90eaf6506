"""Lists the cases and the rules that a user can choose from."""

from collections.abc import Sequence
from pathlib import Path

from ligerdiag.compile.artifact_store import hold_key
from ligerdiag.compile.cache import Cache
from ligerdiag.compile.job import CaseSpec
from ligerdiag.compile.pool import Pool
from ligerdiag.compile.service import discover_cases
from ligerdiag.hazards.registry import RULES
from ligerdiag.hazards.rule import Rule


def list_cases(
    selectors: Sequence[str],
    *,
    directory: Path | None = None,
    cache_directory: Path | None = None,
    jobs: int | None = None,
) -> tuple[CaseSpec, ...]:
    """Returns the cases that the selectors mean, from `directory`. Raises as `check` does.

    A process that asks at the same time as others waits for them, and then finds the answer in the cache.
    """
    cache = Cache(cache_directory)
    with hold_key(cache.artifacts, "cases"), Pool(cache=cache, jobs=jobs) as pool:
        return discover_cases(selectors, pool=pool, directory=directory)


def list_rules() -> tuple[Rule, ...]:
    """Returns all rules, by id."""
    return RULES
