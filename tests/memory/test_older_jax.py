"""jax 0.10.0 copies where 0.11.2 does not: the modules in `drift`, which jax 0.10.0 compiled, against the installed jax.

`ligerdiag check drift.py --toolchain jax-0.10.0` compiled them for an H100, outside of this repository.
"""

from pathlib import Path

from ligerdiag.api import CheckOptions, InspectOptions, check, inspect
from ligerdiag.model.memory import CopyCause, MemoryUse
from ligerdiag.model.report import CaseReport

DRIFT = Path(__file__).with_name("drift")
MIB = 1 << 20


def get_memory(case: CaseReport) -> MemoryUse:
    assert case.memory is not None
    return case.memory


def inspect_older() -> dict[str, CaseReport]:
    cases = inspect(InspectOptions(paths=(DRIFT,), replay=False)).cases
    return {case.id.rpartition(".")[2]: case for case in cases}


def test_a_conditional_copied_a_donated_array_three_times() -> None:
    case = inspect_older()["set_first"]
    memory = get_memory(case)
    assert (memory.temporaries // MIB, memory.copied // MIB) == (64, 192)
    assert {one.cause for one in memory.copies} == {CopyCause.BRANCH_UNCHANGED}
    assert [one.rule for one in case.findings] == ["LD030"]


def test_a_decode_loop_copied_a_cache_in_each_iteration_and_kept_it_in_another_layout() -> None:
    case = inspect_older()["decode"]
    memory = get_memory(case)
    assert memory.copied // MIB == 136
    causes = {one.instruction: one.cause for one in memory.copies}
    assert causes == {
        "copy.14": CopyCause.READ_LATER,
        "copy.6": CopyCause.READ_LATER,
        "wrapped_transpose": CopyCause.LAYOUT,
        "loop_transpose_fusion": CopyCause.LAYOUT,
    }
    assert [one.instruction for one in memory.copies if one.is_round_trip] == ["copy.6"]
    assert any("XLA repeats `scatter` in `dot_general`" in one.message for one in case.findings)


def test_the_installed_jax_copies_nothing(shared_cache: Path) -> None:
    options = CheckOptions(selectors=(str(DRIFT / "drift.py"),), cache_directory=shared_cache, replay=False)
    for case in check(options).cases:
        assert get_memory(case).copied == 0
        assert case.findings == ()
