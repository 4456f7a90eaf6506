"""Programs in which XLA puts two values into the same bytes, and similar ones in which it does not."""

from importlib.metadata import version
from pathlib import Path

import pytest

from ligerdiag import api
from ligerdiag.model.findings import Attribution, ReplayState, Verdict
from ligerdiag.model.report import CaseReport

PROGRAMS = Path(__file__).parent / "sharing"
WRONG = {Attribution.NEITHER, Attribution.STALE, Attribution.PARTLY_STALE}
IS_NEW = tuple(map(int, version("jax-triton").split(".")[:2])) >= (0, 4)

ALIASES = {
    "two": "x", "three": "x", "given": "x", "one_given": "x.", "twice": "x.", "second": "xx", "crossed": "..", "right": "..",
    "later": "x..", "scanned": "xx", "chosen": "x.", "jitted": "x", "products": "x", "two-bf16": "x",
}  # fmt: skip
"""Case to its outputs, by hand: `x` depends on an overwritten operand, `.` does not."""
REFS = {"zeros", "carried", "only_one", "only_last", "three", "sum_first", "zeros-map", "zeros-fori", "halves"}
"""Cases whose Refs XLA has put into the same memory; `unlike` and `summed` have none."""


def check(name: str, cache: Path) -> dict[str, CaseReport]:
    report = api.check(api.CheckOptions(selectors=(str(PROGRAMS / name),), cache_directory=cache))
    return {case.id: case for case in report.cases}


def require_agreement(cases: dict[str, CaseReport]) -> None:
    """Outputs with wrong numbers are clobbered or stale, and nothing contradicts that."""
    for case in cases.values():
        assert case.disagreements == (), case.id
        assert case.replay is not None
        assert case.replay.state is ReplayState.DONE, case.replay.reason
        wrong = {name for name, numbers in case.replay.outputs.items() if numbers.attribution in WRONG}
        right = {name for name in wrong if case.outputs[name] in (Verdict.FRESH, Verdict.LATENT)}
        assert not right, case.id


def has_shared(case: CaseReport) -> bool:
    return any(finding.rule == "LD024" for finding in case.findings)


@pytest.mark.nightly
def test_two_operands_declared_as_one_output_are_judged_right(shared_cache: Path) -> None:
    cases = check("aliases.py", shared_cache)
    require_agreement(cases)
    found = {
        name: "".join("x" if verdict is Verdict.CLOBBERED else "." for verdict in case.outputs.values())
        for name, case in cases.items()
    }
    assert found == ALIASES


@pytest.mark.nightly
def test_two_updates_of_one_array_are_found_if_the_numbers_are_wrong(shared_cache: Path) -> None:
    cases = check("pieces.py", shared_cache)
    require_agreement(cases)
    found = {name for name, case in cases.items() if has_shared(case)}
    assert len(found) >= 4  # the test does not fix which of them XLA gets wrong
    for name, case in cases.items():
        assert case.replay is not None
        assert (name in found) == any(n.attribution in WRONG for n in case.replay.outputs.values())


@pytest.mark.nightly
@pytest.mark.skipif(not IS_NEW, reason="calls of jax-triton before 0.4 take no Refs, and XLA does not fuse them")
def test_two_refs_of_equal_values_in_the_same_memory_are_found(shared_cache: Path) -> None:
    cases = check("refs.py", shared_cache)
    assert {name for name, case in cases.items() if has_shared(case)} == REFS
    require_agreement(cases)
