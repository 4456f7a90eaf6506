"""Evidence says what is so: how an operand was made, and each caller once."""

from pathlib import Path

import pytest

from ligerdiag.analysis.explain.output_sentences import describe_untraced
from ligerdiag.model.findings import CallPlace, Verdict
from ligerdiag.model.report import CaseReport
from ligerdiag.report.causes import list_causes
from ligerdiag.rules.rule import make_example
from ligerdiag.rules.schedules import ld002_stale_copy
from ligerdiag.rules.wording import describe_written
from tests.analysis.pair_files import judge_pair
from tests.hazards.conftest import check_with_budgets

HALVED = make_example(
    about="The kernel gets twice the product, and the reader's half of that is folded into the product itself.",
    code="""\
def step(x, w):
    h = x @ w
    twice = h.astype(jnp.float32) * 2
    sums = sum_and_double(twice)
    return {"sums": sums, "back": (twice * 0.5).astype(jnp.bfloat16) @ w.T}


CASE = Case(
    name="halved", function=step, args=(Arg(shape=(8, 16), dtype="bfloat16"), Arg(shape=(16, 32), dtype="bfloat16"))
)
""",
)
SCANNED = make_example(
    about="The kernel runs in the body of a scan.",
    code="""\
def step(xs, w):
    def body(total, x):
        sums = sum_and_double(x @ w)
        return total + sums.sum(), sums

    return jax.lax.scan(body, 0.0, xs)


CASE = Case(name="scanned", function=step, args=(Arg(shape=(4, 8, 16)), Arg(shape=(16, 32))))
""",
)
SHRUNK = make_example(
    about="A scalar precedes the arrays, and the call does not show its arguments one by one.",
    code="""\
@triton.jit
def shrink_kernel(rate, x_ptr, y_ptr, sums_ptr, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    y = tl.load(y_ptr + at) * rate + tl.load(x_ptr + at)
    tl.store(sums_ptr + tl.program_id(0), tl.sum(y).to(tl.float32))
    tl.store(y_ptr + at, y.to(tl.float32))


def step(x, w):
    given = (0.5, x, x @ w)
    types = jax.ShapeDtypeStruct((8,), x.dtype)
    sums = jt.triton_call(*given, kernel=shrink_kernel, out_shape=types, grid=(8,), N=32)
    return {"sums": sums, "norm": given[2].sum(0)}


CASE = Case(name="shrunk", function=step, args=(Arg(shape=(8, 32)), Arg(shape=(32, 32))))
""",
)
TWICE = make_example(
    about="The kernel is called twice, and each call has a reader that happens to run after it.",
    code="""\
def step(x, w, v):
    h, k = x @ w, x @ v
    sums = sum_and_double(h)
    more = sum_and_double(k)
    return {"sums": sums, "more": more, "columns": h.sum(0), "others": k.sum(0)}


CASE = Case(name="twice", function=step, args=(Arg(shape=(8, 16)), Arg(shape=(16, 32)), Arg(shape=(16, 32))))
""",
)

UNDONE = make_example(
    about="An iteration may put the array back, and XLA drops the choice between it and its copy.",
    code="""\
def step(x, n):
    def body(state):
        h, count, total = state
        saved = jnp.copy(h)
        sums = sum_and_double(h)
        ok = sums.sum() > 0
        return jnp.where(ok, h, saved), count + ok.astype(jnp.int32), total + sums

    h, _, total = jax.lax.while_loop(lambda state: state[1] < n, body, (x * 2, jnp.int32(0), jnp.zeros(8)))
    return {"h": h, "total": total}


CASE = Case(name="undone", function=step, args=(Arg(shape=(8, 32)), jnp.int32(3)))
""",
)


def list_texts(case: CaseReport, rule: str, label: str) -> list[str]:
    return [text for one in case.findings if one.rule == rule for name, text in one.evidence if name == label]


def test_an_operand_that_was_multiplied_is_computed_and_not_copied(tmp_path: Path, shared_cache: Path) -> None:
    (read,) = list_texts(check_with_budgets(HALVED, tmp_path, shared_cache), "LD002", "read")
    assert "the kernel's operand is computed from it by %loop_multiply_fusion" in read


def test_a_loop_of_jax_is_one_caller(tmp_path: Path, shared_cache: Path) -> None:
    case = check_with_budgets(SCANNED, tmp_path, shared_cache)
    places = [text.rpartition(" in ")[2] for text in list_texts(case, "LD006", "from")]
    assert places == ["step.<locals>.body", "step"]
    (call,) = [one.call for one in case.findings if one.call is not None]
    assert len(call.callers) == len(set(call.callers))


def test_a_reader_of_old_and_new_contents_is_not_said_to_use_nothing_that_the_kernel_wrote() -> None:
    (found,) = (one for one in ld002_stale_copy.check(judge_pair("half_recomputed_reader")) if one.reader is not None)
    assert found.message == "`y` is computed by `%y`, which also uses a value from before `double` wrote"
    assert dict(found.evidence)["read"].endswith("reads what the kernel wrote, and recomputes an older value")


@pytest.mark.parametrize(
    ("target", "advice"),
    [
        ("triton_kernel_call", "declare the write (`ligerdiag.in_place.call_in_place`)"),
        ("some_other_library", "declare an output that aliases operand 0 and use that output"),
    ],
)
def test_a_value_that_was_not_found_comes_with_the_next_step_of_its_library(target: str, advice: str) -> None:
    context = judge_pair("value_without_a_tag")
    for write in context.writes:
        write.call.proto.custom_call_target = target
    (line,) = describe_untraced(context)
    assert line.endswith(f"; {advice}, then it can be decided")


def test_an_unknown_output_has_a_reason_if_the_operation_that_read_the_old_contents_is_gone(
    tmp_path: Path, shared_cache: Path
) -> None:
    case = check_with_budgets(UNDONE, tmp_path, shared_cache)
    assert set(case.outputs.values()) == {Verdict.UNKNOWN}
    (line,) = case.coverage.not_covered
    assert "from before the write was not found in the schedule" in line


def test_the_help_names_the_parameter_that_gets_an_overwritten_array(tmp_path: Path, shared_cache: Path) -> None:
    """The array is operand 1 of the custom call, but argument 2 of the call in Python."""
    case = check_with_budgets(SHRUNK, tmp_path, shared_cache)
    helps = {one.help for one in case.findings if "call_in_place" in one.help}
    assert helps, case.findings
    assert all('`ligerdiag.in_place.call_in_place`, with `written="y_ptr"`, and use' in text for text in helps)


@pytest.mark.parametrize(
    ("written", "parameters", "words"),
    [
        ((1,), ("y_ptr",), '`written="y_ptr"`'),
        ((0, 2), ("p_ptr", "m_ptr"), '`written=("p_ptr", "m_ptr")`'),
        ((1,), (), "operand 1 as `written` (its position among all arguments of the call, scalars included)"),
        (
            (0, 2),
            ("p_ptr", ""),
            "operands 0 and 2 as `written` (their positions among all arguments of the call, scalars included)",
        ),
    ],
)
def test_the_number_of_an_operand_is_not_given_as_its_position(
    written: tuple[int, ...], parameters: tuple[str, ...], words: str
) -> None:
    assert describe_written(CallPlace(line=None, written=written, parameters=parameters)) == words


def test_a_read_that_is_right_by_luck_names_its_call_of_several(tmp_path: Path, shared_cache: Path) -> None:
    """By hand: `columns` is computed from `h`, the operand of the first call, and `others` from that of the second one."""
    case = check_with_budgets(TWICE, tmp_path, shared_cache)
    lucky = {one.outputs: one for one in case.findings if one.rule == "LD003"}
    lines = TWICE.code.splitlines()
    for output, word, call in (("columns", "first", "sums ="), ("others", "second", "more =")):
        finding = lucky[output,]
        assert f" happens to run after the {word} of 2 calls of `double_kernel`" in finding.message
        (number,) = (place for place, line in enumerate(lines, 1) if line.strip().startswith(f"{call} sum_and_double"))
        (read,) = (text for label, text in finding.evidence if label == "read")
        assert f"by the {word} of 2 calls of `double_kernel` ({case.source}:{number}); no data" in read
    (cause,) = (one for one in list_causes(case) if one.rule == "LD003")
    reads = [text for label, text in cause.evidence if label == "read"]
    assert ["the first of 2" in reads[0], "the second of 2" in reads[1], len(reads)] == [True, True, 2]
