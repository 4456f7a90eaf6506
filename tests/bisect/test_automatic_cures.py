"""The mitigations that bisect applies to a case of the user's own, and the reasons for those that it cannot apply."""

from pathlib import Path

import pytest

from ligerdiag.bisect.mitigation import bisect_mitigation
from ligerdiag.bisect.trials import Trial, TrialRunner
from ligerdiag.hlo.parse import load_hlo
from ligerdiag.model.jobs import Variation
from ligerdiag.report.comparisons import Axis, Bisection
from ligerdiag.toolchains.gpu_targets import Target
from tests.bisect.conftest import Load, make_options
from tests.bisect.programs import INTEGER_OUTPUT, TWO_READERS, make_file

pytestmark = pytest.mark.xdist_group("bisect")

FLCE = f"{Path(__file__).parents[2]}/cases/flce_modes.py::flce_modes[{{}}-float32-True-1-4-32-16]"
REFERENCE = (
    "import jax.numpy as jnp\n\n\n"
    "def reference(x, y):\n"
    "    row = jax.lax.cummax(x * y)\n"
    '    return {"last": row.max(), "sum": row + y, "product": row * x}\n\n\n'
)
OWN_READERS, OWN_INTEGERS = (text.replace('name="', 'name="own_') for text in (TWO_READERS, INTEGER_OUTPUT))
"""The shared programs by other names: other tests count the compiles of the runner that they share."""
WITH_REFERENCE = OWN_READERS.replace("def program", f"{REFERENCE}def program", 1).replace(
    "function=program", "function=program, reference=reference"
)
TWICE = make_file(
    "twice",
    'row = x * y\nfirst = overwrite(row)\nsecond = overwrite(row)\nreturn {"sum": first + second, "row": row + y}',
)
IN_A_LOOP = make_file(
    "looped",
    "row = x * y\n"
    "total = jax.lax.fori_loop(0, 3, lambda n, total: total + overwrite(row), 0.0)\n"
    'return {"total": total, "sum": row + y}',
)
NESTED = make_file(
    "nested", 'row = x * y\nlast = jax.jit(overwrite)(row)\nreturn {"last": last, "sum": row + y, "product": row * x}'
)
SILENT = (
    make_file("silent", 'row = x * y\noverwrite(row)\nreturn {"sum": row + y}')
    .replace("row_ptr, last_ptr,", "row_ptr,")
    .replace("    tl.store(last_ptr, best)\n", "")
    .replace("jax.ShapeDtypeStruct((), dtype)", "()")
)
LOST = make_file("lost", 'row = x * y\noverwrite(row)\nreturn {"sum": row + y}')


def climb(runner: TrialRunner, h100: Target, case: object, *, replay: bool = False) -> Bisection:
    return bisect_mitigation(runner, case, h100, make_options(Axis.MITIGATION, replay=replay))  # type: ignore[arg-type]


def list_words(found: Bisection) -> dict[str, str]:
    return {row.label: row.word for row in found.rows}


def test_every_cure_of_a_users_case_is_climbed_and_confirmed_by_its_reference(
    runner: TrialRunner, h100: Target, load: Load
) -> None:
    found = climb(runner, h100, load(WITH_REFERENCE), replay=True)
    assert list_words(found) == {"as written": "wrong", "trivial": "right", "barrier": "right", "aliased": "right"}
    exact = [row for row in found.rows if row.label in ("barrier", "aliased")]
    assert all(row.replay == "agrees" for row in exact)
    assert all(float(row.cells["worst error"].split()[0]) < 1e-5 for row in exact)
    assert not found.is_unsettled


def test_declared_writes_are_the_program_that_the_author_would_write(runner: TrialRunner, h100: Target) -> None:
    (hidden,), (aliased,) = (runner.discover([FLCE.format(mode)]) for mode in ("hidden", "aliased"))
    base = runner.try_one(Trial(case=hidden, target=h100))
    writes = tuple(f"{one.call}.{one.operand}" for one in base.written)
    declared = runner.try_one(Trial(case=hidden, target=h100, variation=Variation(declared=writes)))
    by_hand = runner.try_one(Trial(case=aliased, target=h100))
    assert declared.outputs == by_hand.outputs
    assert declared.is_right
    assert not declared.written
    sizes: list[tuple[int, int]] = []
    for one in (declared, by_hand):
        assert one.artifact is not None
        module, buffers = load_hlo(one.artifact.optimized)
        assert buffers is not None
        assert buffers.memory is not None
        sizes.append((module.instruction_count, buffers.memory.peak))
    assert sizes[0] == sizes[1]


def test_a_call_in_a_function_of_its_own_is_declared_through_the_function(
    runner: TrialRunner, h100: Target, load: Load
) -> None:
    words = list_words(climb(runner, h100, load(NESTED)))
    assert (words["barrier"], words["aliased"]) == ("right", "right")


def test_a_kernel_that_returns_integers_can_wait_at_a_barrier(runner: TrialRunner, h100: Target, load: Load) -> None:
    found = climb(runner, h100, load(OWN_INTEGERS))
    assert list(list_words(found)) == ["as written", "barrier", "aliased"]
    assert any(note.startswith("the mitigation `trivial` was not tried") for note in found.notes)


def test_two_calls_on_one_value_are_cured_by_declared_writes_alone(
    runner: TrialRunner, h100: Target, load: Load
) -> None:
    words = list_words(climb(runner, h100, load(TWICE)))
    assert words["aliased"] == "right"
    assert words["barrier"] != "right"


def test_a_call_in_a_loop_cannot_be_declared_from_outside(runner: TrialRunner, h100: Target, load: Load) -> None:
    found = climb(runner, h100, load(IN_A_LOOP))
    assert "aliased" not in list_words(found)
    assert any(
        note.startswith("the mitigation `aliased` was not tried: `add` at ")
        and note.endswith("the kernel is inside a `stablehlo.while`: its results are not available outside")
        for note in found.notes
    )


def test_a_call_that_jax_drops_runs_once_its_write_is_declared(runner: TrialRunner, h100: Target, load: Load) -> None:
    words = list_words(climb(runner, h100, load(LOST)))
    assert words["as written"] == "wrong"
    assert words["aliased"] == "right"


def test_nothing_can_wait_for_a_kernel_that_returns_nothing(runner: TrialRunner, h100: Target, load: Load) -> None:
    found = climb(runner, h100, load(SILENT))
    assert list_words(found) == {"as written": "wrong", "aliased": "right"}
    assert "the mitigation `barrier` was not tried: the kernel returns nothing to wait for" in found.notes


def test_mitigations_that_need_another_program_are_named(runner: TrialRunner, h100: Target, load: Load) -> None:
    (note,) = [note for note in climb(runner, h100, load(OWN_READERS)).notes if "only you can write them" in note]
    assert "`out_of_place` needs a kernel that stores to an array of its own" in note
    assert "`shard_map`" in note


def test_a_write_that_is_not_in_the_program_is_an_input_error(runner: TrialRunner, h100: Target, load: Load) -> None:
    case = load(OWN_READERS)
    for text, message in (("9999.0", "is not in the program that XLA gets"), ("x", "expected a write as")):
        outcome = runner.try_one(Trial(case=case, target=h100, variation=Variation(declared=(text,))))
        assert message in outcome.error
