"""What a verdict stands on, in numbers: how much of both modules was followed."""

from dataclasses import dataclass

from ligerdiag.hlo.module import HloModule


@dataclass(frozen=True, slots=True, kw_only=True)
class TagCoverage:
    """How many of the program's tagged operations are seen again in the optimized module."""

    tags: int = 0
    found: int = 0


def compute_tag_coverage(program: HloModule, optimized: HloModule) -> TagCoverage:
    """Counts by the operation's own tag, whatever calls lead to it."""
    written, seen = _collect(program), _collect(optimized)
    return TagCoverage(tags=len(written), found=len(written & seen))


def _collect(module: HloModule) -> set[int]:
    return {path[-1] for path in module.tags.values()}
