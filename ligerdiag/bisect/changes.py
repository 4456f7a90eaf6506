"""Describes in words what changed between two outcomes."""

from collections.abc import Mapping

from ligerdiag.findings import Verdict


def compare_outputs(one: Mapping[str, Verdict], other: Mapping[str, Verdict]) -> tuple[str, ...]:
    """Such as `weight` stale -> fresh, one for each output that both have and whose verdict differs."""
    return tuple(
        f"`{name}` {one[name].value} -> {verdict.value}"
        for name, verdict in other.items()
        if name in one and one[name] is not verdict
    )
