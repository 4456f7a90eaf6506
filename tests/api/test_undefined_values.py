"""Values that the program does not define: unwritten memory, and results that depend on the order of a grid's programs.

The cases of `undefined_values/` state their right answers, for both generations of jax-triton.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from ligerdiag import api
from ligerdiag.model.findings import Finding, Severity, Suppression, SuppressionKind, Verdict
from ligerdiag.model.report import CaseReport, Status
from ligerdiag.rules.undefined_outputs import mark_undefined

FILES = Path(__file__).parent / "undefined_values"


@pytest.fixture(scope="module")
def unwritten(shared_cache: Path) -> dict[str, CaseReport]:
    return check("unwritten.py", shared_cache)


@pytest.fixture(scope="module")
def allocated(shared_cache: Path) -> dict[str, CaseReport]:
    return check("allocated.py", shared_cache)


@pytest.fixture(scope="module")
def orders(shared_cache: Path) -> dict[str, CaseReport]:
    return check("orders.py", shared_cache)


def check(file: str, cache: Path) -> dict[str, CaseReport]:
    report = api.check(api.CheckOptions(selectors=(str(FILES / file),), cache_directory=cache))
    return {case.id: case for case in report.cases}


def list_unexpected(cases: dict[str, CaseReport]) -> dict[str, str]:
    return {name: case.mismatch or case.error for name, case in cases.items() if case.status is not Status.EXPECTED}


def get_finding(case: CaseReport, rule: str) -> Finding:
    (finding,) = (one for one in case.findings if one.rule == rule)
    return finding


def test_an_unwritten_value_is_never_fresh_and_a_written_one_always_is(unwritten: dict[str, CaseReport]) -> None:
    assert list_unexpected(unwritten) == {}


def test_memory_that_the_program_allocates_has_no_contents(allocated: dict[str, CaseReport]) -> None:
    """If the launch alone proves the read, the finding names the kernel; replay finds the other reads."""
    assert list_unexpected(allocated) == {}
    assert get_finding(allocated["total"], "LD025").kernel == "add_rows_there"
    assert get_finding(allocated["total_in_scan"], "LD025").outputs == ("last",)


def test_a_dropped_output_counts_if_the_kernel_reads_it(shared_cache: Path) -> None:
    assert list_unexpected(check("scratch.py", shared_cache)) == {}


def test_without_numbers_possibly_unwritten_elements_are_not_fresh(shared_cache: Path) -> None:
    """Only replay can distinguish the outputs that read just the written elements."""
    selectors = tuple(f"{FILES / 'unwritten.py'}::{name}" for name in ("half", "padding_read", "half_elements"))
    report = api.check(api.CheckOptions(selectors=selectors, cache_directory=shared_cache, replay=False))
    assert {verdict for case in report.cases for verdict in case.outputs.values()} == {Verdict.UNKNOWN}


def test_a_value_that_depends_on_the_order_of_the_programs_is_never_fresh(orders: dict[str, CaseReport]) -> None:
    assert list_unexpected(orders) == {}


def test_an_unwritten_read_names_the_call_the_reading_line_and_the_remedy(unwritten: dict[str, CaseReport]) -> None:
    finding = get_finding(unwritten["total"], "LD025")
    assert finding.source is not None
    assert (Path(finding.source.file).name, finding.outputs) == ("unwritten.py", ("scaled", "total"))
    assert "unwritten.py:" in dict(finding.evidence)["read"]
    assert "zeroed_outputs=(0,)" in finding.help


def test_the_first_nan_is_blamed_on_the_memory_and_not_on_the_arguments(unwritten: dict[str, CaseReport]) -> None:
    replay = unwritten["total"].replay
    assert replay is not None
    assert "unwritten memory" in replay.reason
    assert "arguments" not in replay.reason


def test_autotuning_that_adds_to_an_output_is_reported_besides_its_unwritten_memory(
    unwritten: dict[str, CaseReport],
) -> None:
    assert [one.rule for one in unwritten["splitk"].findings] == ["LD010", "LD025"]
    assert "output 0" in get_finding(unwritten["splitk"], "LD010").message


def test_a_lost_update_is_shown_by_running_programs_at_the_same_time(orders: dict[str, CaseReport]) -> None:
    for name, rule in (("cell", "LD019"), ("tile", "LD011")):
        finding = get_finding(orders[name], rule)
        assert "at the same time" in dict(finding.evidence)["replay"]
        assert "atomic" in finding.help


def test_findings_that_only_replay_makes_have_a_line(
    orders: dict[str, CaseReport], unwritten: dict[str, CaseReport]
) -> None:
    for case in (*orders.values(), *unwritten.values()):
        assert all(finding.source is not None for finding in case.findings)


FINDING = Finding(rule="LD025", severity=Severity.ERROR, message="reads", outputs=("a", "b"))


def test_only_fresh_outputs_become_unknown_and_only_through_findings_that_are_not_allowed() -> None:
    outputs = {"a": Verdict.FRESH, "b": Verdict.STALE, "c": Verdict.LATENT}
    assert mark_undefined(outputs, (FINDING,)) == {**outputs, "a": Verdict.UNKNOWN}
    allowed = replace(FINDING, suppressed=Suppression(kind=SuppressionKind.CONFIG, reason="known", where="x:1"))
    assert mark_undefined(outputs, (allowed,)) == outputs
    assert mark_undefined(outputs, (replace(FINDING, rule="LD020"),)) == outputs


SECOND = """\
import inspect
import jax, jax.numpy as jnp
import jax_triton as jt
import triton, triton.language as tl
from ligerdiag import Arg, Case

OUT = "out_type" if "out_type" in inspect.signature(jt.triton_call).parameters else "out_shape"


@triton.jit
def ticket_kernel(x_ptr, c_ptr, o_ptr, D: tl.constexpr):
    d = tl.arange(0, D)
    t = tl.atomic_add(c_ptr, 1)
    tl.store(o_ptr + t * D + d, tl.load(x_ptr + tl.program_id(0) * D + d))


def program(x):
    c = jnp.zeros((1,), jnp.int32)
    shape = {OUT: jax.ShapeDtypeStruct((ROWS, 16), "float32")}
    o = jt.triton_call(x, c, kernel=ticket_kernel, grid=8, D=16, **shape)
    return {"rows": o, "count": c}


CASE = Case(name="again", function=program, args=(Arg(shape=(8, 16)),))
"""


@pytest.mark.parametrize("rows", [8, 16])
def test_a_hazard_of_the_second_execution_is_reported_as_such(rows: int, tmp_path: Path, shared_cache: Path) -> None:
    """The counter is a constant that the call overwrites: the second execution starts at 8."""
    (tmp_path / "again.py").write_text(SECOND.replace("ROWS", str(rows)))
    selectors = (str(tmp_path / "again.py"),)
    (case,) = api.check(api.CheckOptions(selectors=selectors, cache_directory=shared_cache)).cases
    partial = [one.message for one in case.findings if one.rule == "LD013"]
    outside = [one.message for one in case.findings if one.rule == "LD020"]
    if rows == 8:
        later = "in a second execution on the same constants"
        assert partial == [f"`ticket_kernel` leaves 128 of 128 elements of its output 0 unwritten, {later}"]
        assert outside == [f"`ticket_kernel` writes outside output 0 {later}"]
    else:
        assert partial == ["`ticket_kernel` leaves 128 of 256 elements of its output 0 unwritten"]
        assert outside == []
