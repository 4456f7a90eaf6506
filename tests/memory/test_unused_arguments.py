"""Arguments that the program never reads: ligerdiag judges what JAX compiles, and JAX on the CPU says what that is."""

import runpy
from functools import partial
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any

import jax
import pytest

import ligerdiag
from ligerdiag import api
from ligerdiag.compile.cases.arguments import compute_donated, compute_input_names, draw_arguments
from ligerdiag.model.case import Case
from ligerdiag.model.findings import ReplayState
from ligerdiag.model.memory import DonationFault, MemoryUse
from ligerdiag.model.report import CaseReport
from ligerdiag.report.words.memory_words import describe_memory

PROGRAMS = Path(__file__).parent / "programs"
CASES: dict[str, Case] = {case.name: case for case in runpy.run_path(str(PROGRAMS / "unused_arguments.py"))["CASES"]}


@pytest.fixture(scope="module")
def reports(shared_cache: Path) -> dict[str, CaseReport]:
    report = api.check(
        api.CheckOptions(selectors=(str(PROGRAMS / "unused_arguments.py"),), cache_directory=shared_cache)
    )
    return {case.id: case for case in report.cases}


def memory_of(report: CaseReport) -> MemoryUse:
    assert report.memory is not None, report.error
    return report.memory


def lower(function: Any, *arguments: Any, **words: Any) -> Any:
    if isinstance(function, partial):
        return lower(function.func, *function.args, *arguments, **function.keywords, **words)
    if isinstance(function, MethodType):
        return lower(function.__func__, function.__self__, *arguments, **words)
    return function.lower(*arguments, **words)


@pytest.mark.filterwarnings("ignore:Some donated buffers were not usable")
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.mesh])
def test_jax_deletes_what_an_output_takes(reports: dict[str, CaseReport], name: str) -> None:
    case, function = CASES[name], CASES[name].function
    jax.clear_caches()  # two functions of `jax.jit` that differ only in `keep_unused` share an entry of JAX's cache
    arguments = jax.tree.map(lambda array: array.copy(), draw_arguments(case))  # JAX does not delete NumPy's memory
    if isinstance(function, FunctionType):
        function = jax.jit(function, donate_argnums=compute_donated(case), keep_unused=case.keep_unused)
    names = compute_input_names(getattr(function, "func", function), arguments)
    sizes = lower(function, *arguments, **case.kwargs).compile().memory_analysis()
    jax.block_until_ready(function(*arguments, **case.kwargs))
    deleted = {name for name, leaf in zip(names, jax.tree.leaves(arguments), strict=True) if leaf.is_deleted()}
    memory = memory_of(reports[name])
    assert {one.argument for one in memory.donations if one.fault is None} == deleted
    assert memory.aliased == sizes.alias_size_in_bytes
    assert memory.arguments == sizes.argument_size_in_bytes


@pytest.mark.parametrize(
    ("name", "dropped"),
    [
        ("scratch", ["scratch"]),
        ("old_is_not_read", ["old"]),
        ("old_is_kept", []),
        ("old_is_kept_by_case", []),
        ("donated_by_name", ["old"]),
        ("labels_of_a_batch", ["batch.labels"]),
        ("optimizer_state", ["opt_state.count", "opt_state.mu", "opt_state.nu"]),
        ("key_without_dropout", ["key"]),
        ("default", ["x"]),
        ("in_a_partial", ["x"]),
        ("in_a_partial_that_keeps", []),
        ("method", ["spare"]),
        ("print_first", []),
        ("call_inner_that_keeps", ["y"]),
        ("multiply_by_zero", []),
        ("no_input", ["x"]),
        ("sharded", ["old"]),
        ("sharded_no_input", ["x"]),
    ],
)
def test_a_donated_argument_that_jax_drops_is_a_void_donation(
    reports: dict[str, CaseReport], name: str, dropped: list[str]
) -> None:
    memory = memory_of(reports[name])
    assert [one.argument for one in memory.dropped] == dropped
    assert [one.argument for one in memory.donations if one.fault is DonationFault.DROPPED] == dropped
    assert all(one.is_donated for one in memory.dropped)


def test_an_argument_that_is_not_donated_is_dropped_as_well(reports: dict[str, CaseReport]) -> None:
    memory = memory_of(reports["not_donated"])
    (dropped,) = memory.dropped
    assert (dropped.argument, dropped.bytes, dropped.is_donated) == ("scratch", 16384, False)
    assert memory.donations == ()
    assert memory.arguments == 16384


def test_the_bytes_are_those_on_one_device(reports: dict[str, CaseReport]) -> None:
    assert [one.bytes for one in memory_of(reports["sharded"]).dropped] == [8192]
    assert [one.bytes for one in memory_of(reports["key_without_dropout"]).dropped] == [8]


def test_the_program_is_not_all_in_place(reports: dict[str, CaseReport]) -> None:
    assert "all in place" not in describe_memory(memory_of(reports["spare"]))
    assert "all in place: 2 requests" in describe_memory(memory_of(reports["spare_is_kept"]))


def test_the_finding_names_cause_and_cure(reports: dict[str, CaseReport]) -> None:
    (finding,) = reports["old_is_not_read"].findings
    assert finding.rule == "LD028"
    assert finding.message == (
        "`old` (16.0 KiB) is donated, but no output takes these bytes:"
        " the function never reads the argument, so JAX drops it, and neither reuses nor deletes its bytes"
    )
    assert "`keep_unused=True`" in finding.help


def test_replay_runs_the_program_on_the_kept_arguments(reports: dict[str, CaseReport]) -> None:
    states = {name: report.replay and report.replay.state for name, report in reports.items()}
    assert {name for name, state in states.items() if state is not ReplayState.DONE} == {"print_first"}


@pytest.mark.parametrize("keep_unused", [False, True])
def test_a_live_function_keeps_what_its_jit_or_the_caller_keeps(shared_cache: Path, keep_unused: bool) -> None:
    spec = jax.ShapeDtypeStruct((4096,), "float32")

    def swap(old: Any, new: Any) -> Any:
        return new * 2

    dropped = [] if keep_unused else ["old"]
    own = jax.jit(swap, donate_argnums=0, keep_unused=keep_unused)
    for function, words in ((own, {}), (jax.jit(swap, donate_argnums=0), {"keep_unused": keep_unused})):
        report = ligerdiag.check(function, spec, spec, cache_directory=shared_cache, replay=False, **words)
        assert [one.argument for one in memory_of(report).dropped] == dropped
