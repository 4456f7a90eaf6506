"""The core of the verdict: which labels a call passes on, and what a difference between two sets of labels means."""

import pytest

from ligerdiag.analysis.evaluation.label_memory import LuckyRead
from ligerdiag.analysis.evaluation.labels import LabelSpace, list_unused, transfer_call
from ligerdiag.analysis.verdict.comparison import ComparedEdge, Comparison
from ligerdiag.analysis.writes import HiddenWrite
from ligerdiag.effects.access import Access, CallEffects
from ligerdiag.hlo.module import HloModule
from ligerdiag.hlo.parse import parse_hlo
from tests.hlo.building import Builder
from tests.hlo.placing import read_text

SPACE = LabelSpace(2, 2)
FRESH, ORIGINAL = SPACE.fresh(0), SPACE.original(0)
EARLIER = SPACE.advance(FRESH, 1, frozenset({0}))
OTHER = SPACE.fresh(1)
AFTER = SPACE.mark(LuckyRead(0, 5, True, 0))
BEFORE = SPACE.mark(LuckyRead(0, 6, False, 0))
FOREIGN = SPACE.mark(LuckyRead(1, 7, True, 0))


def make_module() -> HloModule:
    program = Builder()
    program.add(program.computation("entry"), "parameter")
    return parse_hlo(program.bytes())[0]


MODULE = make_module()


def make_write(index: int = 0, operand: int = 0, unknown: bool = False) -> HiddenWrite:
    return HiddenWrite(index, "k", operand, unknown, (), 0, (), MODULE)


def compare(
    intended: int,
    actual: int,
    *,
    unknown: bool = False,
    moved: bool = False,
    undecided: bool = False,
    traced: bool = False,
) -> str:
    comparison = Comparison(
        (make_write(unknown=unknown),),
        SPACE,
        frozenset({0} if moved else ()),
        frozenset({0} if undecided else ()),
        frozenset({0} if traced else ()),
    )
    return comparison.compare(ComparedEdge(intended, actual)).verdict.value


@pytest.mark.parametrize(
    ("intended", "actual", "expected"),
    [
        (0, 0, "fresh"),
        (FRESH, FRESH, "fresh"),
        (FRESH, 0, "stale"),
        (0, FRESH, "clobbered"),
        (FRESH, EARLIER, "stale"),  # sees only the write of an earlier iteration
        (FRESH | EARLIER, EARLIER, "stale"),
        (EARLIER, FRESH | EARLIER, "clobbered"),  # should read, in this iteration, from before the write
        (FRESH, FRESH | ORIGINAL, "stale"),  # a part of it is from before the write
        (FRESH | ORIGINAL, FRESH | ORIGINAL, "fresh"),
        (ORIGINAL, 0, "fresh"),
        (FRESH, FRESH | AFTER, "latent"),
        (FRESH, AFTER, "stale"),
        (ORIGINAL, ORIGINAL | BEFORE, "latent"),
        (FRESH, FRESH | BEFORE, "latent"),  # another path rightly reads from before, but by luck
        (0, BEFORE, "latent"),  # XLA has merged the intended value with the overwritten one
        (0, AFTER, "latent"),
        (FRESH, FRESH | FOREIGN, "fresh"),
        (OTHER, 0, "fresh"),  # concerns another write
    ],
)
def test_a_difference_between_labels_determines_the_verdict(intended: int, actual: int, expected: str) -> None:
    assert compare(intended, actual) == expected


@pytest.mark.parametrize(
    ("intended", "actual", "expected"),
    [
        (FRESH | ORIGINAL, FRESH, "clobbered"),  # one part should be from before, and both are from after
        (FRESH | ORIGINAL, FRESH | ORIGINAL, "fresh"),
        (FRESH | ORIGINAL, EARLIER | ORIGINAL, "stale"),
        (ORIGINAL, 0, "fresh"),  # folded away
        (FRESH, FRESH, "fresh"),
    ],
)
def test_an_output_that_misses_a_traced_original_is_clobbered(intended: int, actual: int, expected: str) -> None:
    assert compare(intended, actual, traced=True) == expected


def test_an_output_that_misses_an_untraced_original_is_unknown() -> None:
    assert compare(FRESH | ORIGINAL, FRESH) == "unknown"


def test_iterations_are_not_distinguished_once_a_loop_is_gone() -> None:
    assert compare(EARLIER, FRESH, moved=True) == "fresh"
    assert compare(EARLIER, 0, moved=True) == "stale"


@pytest.mark.parametrize("reason", ["unknown", "undecided"])
def test_unknown_covers_everything_that_the_write_may_touch_and_nothing_else(reason: str) -> None:
    for intended, actual in ((FRESH, FRESH), (FRESH, 0), (0, FRESH), (FRESH, FRESH | AFTER)):
        assert compare(intended, actual, **{reason: True}) == "unknown"
    assert compare(OTHER, OTHER, **{reason: True}) == "fresh"


def test_an_output_that_needs_the_original_of_an_undecided_write_is_unknown() -> None:
    assert compare(ORIGINAL, 0, undecided=True) == "unknown"
    assert compare(ORIGINAL, 0) == "fresh"


def test_the_worst_write_decides() -> None:
    comparison = Comparison((make_write(0), make_write(1)), SPACE, frozenset(), frozenset())
    found = comparison.compare(ComparedEdge(FRESH | OTHER, FRESH | AFTER))
    assert found.verdict.value == "stale"
    assert [(cause.write, cause.verdict.value) for cause in found.causes] == [(0, "latent"), (1, "stale")]


def transfer(access: tuple[Access, ...], operands: list[int], *writes: HiddenWrite) -> tuple[int, int]:
    """Returns the labels of the results, and the labels of operand 0 after the call."""
    effects = CallEffects(kernel="k", operands=access, outputs=(Access.WRITE,))
    found = transfer_call(effects, operands, writes, SPACE)
    after = operands[0]
    for _, dropped, added in found.written:
        after = after & ~dropped | added
    return found.results, after


def test_results_depend_on_operands_that_are_read() -> None:
    read_write = (Access.READ_WRITE, Access.READ)
    assert transfer(read_write, [ORIGINAL, OTHER], make_write()) == (OTHER, OTHER | FRESH)


def test_results_do_not_depend_on_operands_that_are_only_written() -> None:
    # where a mask is false, the kernel leaves the old bytes
    results, after = transfer((Access.WRITE, Access.NONE), [OTHER | ORIGINAL, EARLIER], make_write())
    assert results == 0
    assert after == OTHER | FRESH


def test_a_read_passes_on_the_write_of_an_earlier_iteration() -> None:
    assert transfer((Access.READ_WRITE,), [EARLIER], make_write()) == (EARLIER, EARLIER | FRESH)


def test_an_original_passes_through_other_kernels_but_not_through_its_own() -> None:
    assert transfer((Access.READ_WRITE,), [ORIGINAL], make_write(1)) == (ORIGINAL, ORIGINAL | OTHER)
    assert transfer((Access.READ_WRITE, Access.READ), [0, ORIGINAL], make_write()) == (0, FRESH)


def test_an_unknown_kernel_touches_its_results() -> None:
    results, after = transfer((Access.UNKNOWN,), [OTHER], make_write(unknown=True))
    assert results == OTHER | FRESH
    assert after == OTHER | FRESH


def test_an_operand_without_a_known_effect_counts_as_read() -> None:
    assert transfer((), [OTHER])[0] == OTHER


@pytest.mark.parametrize(
    ("operands", "unused"),
    [
        ("x, y", {0}),
        ("rows, y", {0}),
        ("x, x", set()),
        ("x, same", set()),
        ("rows, others", set()),  # a fusion with the kernel gives it two addresses in `x`: some rows may be in both
    ],
)
def test_results_depend_on_all_operands_if_two_may_be_the_same_bytes(operands: str, unused: set[int]) -> None:
    text = f"""HloModule f
ENTRY entry {{
  x = f32[8,4] parameter(0)
  y = f32[8,4] parameter(1)
  i = s32[] parameter(2)
  zero = s32[] constant(0)
  same = f32[8,4] bitcast(x)
  rows = f32[4,4] slice(x), slice={{[0:4], [0:4]}}
  others = f32[4,4] dynamic-slice(x, i, zero), dynamic_slice_sizes={{4,4}}
  ROOT call = f32[4] custom-call({operands}), custom_call_target="k"
}}
"""
    (call,) = [one for _, one in parse_hlo(read_text(text).SerializeToString())[0].iterate_custom_calls()]
    both = (Access.READ_WRITE, Access.READ)
    effects = CallEffects(kernel="k", operands=both, outputs=(Access.WRITE,), result_sources=(1,))
    assert list_unused(effects, call) == unused
