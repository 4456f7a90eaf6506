"""The remedy as a patch of the user's own line."""

from pathlib import Path

import pytest

from ligerdiag.model.findings import CallPlace, SourceLine
from ligerdiag.rules.wording import render_patch

BEFORE, SINCE = "triton_kernel_call", "triton_kernel_call_ffi"


def patch(
    folder: Path,
    code: str,
    *,
    target: str,
    line: int = 1,
    operand: int = 0,
    operands: int = 2,
    is_declared: bool = False,
    may_be_sliced: bool = False,
) -> str:
    file = folder / "mine.py"
    file.write_text(code, encoding="utf-8")
    place = SourceLine(file=str(file), line=line)
    call = CallPlace(
        line=place,
        target=target,
        operands=operands,
        outputs=1,
        is_declared=is_declared,
        may_be_sliced=may_be_sliced,
    )
    return render_patch(call, kernel="kernel", operand=operand, source_roots=[str(folder)])


def test_before_0_4_an_output_is_added_and_aliased(tmp_path: Path) -> None:
    text = patch(tmp_path, "loss = jt.triton_call(x, y, kernel=k, out_shape=losses)\n", target=BEFORE)
    assert text.startswith(
        "`loss, x = jt.triton_call(…, out_shape=(losses, jax.ShapeDtypeStruct(x.shape, x.dtype)),"
        " input_output_aliases={0: 1}, …)`"
    )
    assert "one more pointer parameter of `kernel`" in text


def test_since_0_4_a_ref_takes_the_operands_place(tmp_path: Path) -> None:
    code = "loss = jt.triton_call(\n    x,\n    y,\n    kernel=k,\n    out_shape=losses,\n)\n"
    text = patch(tmp_path, code, target=SINCE, operand=1)
    assert text.startswith(
        "`ref = jax.new_ref(y)`, `loss = jt.triton_call(x, ref, …)`, `y = jax.freeze(ref)`, and use `y` from there on"
    )


def test_a_call_among_slices_is_held_apart_from_them(tmp_path: Path) -> None:
    """A Ref alone did not cure a scan that stacks what the kernel leaves: XLA breaks the alias, LD022."""
    code = "loss = jt.triton_call(x, y, kernel=k, out_shape=o)\n"
    text = patch(tmp_path, code, target=SINCE, may_be_sliced=True)
    assert "`x = jax.freeze(ref)`" in text
    assert "jax.lax.optimization_barrier" in text
    assert "jax.lax.optimization_barrier" not in patch(tmp_path, code, target=BEFORE, may_be_sliced=True)


def test_a_declared_write_is_not_declared_again(tmp_path: Path) -> None:
    """`ref = jax.new_ref(ref)` was the remedy of a call with a Ref that XLA had fused with a slice."""
    assert not patch(tmp_path, "o = jt.triton_call(ref, y, kernel=k)\n", target=SINCE, is_declared=True)


def test_an_operand_that_is_no_name_gets_one(tmp_path: Path) -> None:
    text = patch(tmp_path, "loss = jt.triton_call(x.T, y, kernel=k, out_shape=o)\n", target=SINCE)
    assert "`ref = jax.new_ref(x.T)`" in text
    assert "`updated = jax.freeze(ref)`" in text


@pytest.mark.parametrize(
    ("code", "results"),
    [
        ("return_ = (jt.triton_call(x, y, kernel=k, out_shape=o), x)\n", "result, x"),
        ("def f(x, y):\n    return jt.triton_call(x, y, kernel=k, out_shape=o)\n", "result, x"),
        ("x = jt.triton_call(x, y, kernel=k, out_shape=o)\n", "x, updated"),
        ("jt.triton_call(x, y, kernel=k, out_shape=o)\n", "_, x"),
        ("a, b = jt.triton_call(x, y, kernel=k, out_shape=(o, p))\n", "a, b, x"),
    ],
)
def test_the_results_are_those_of_today_and_one_more(tmp_path: Path, code: str, results: str) -> None:
    text = patch(tmp_path, code, target=BEFORE, line=code.count("\n"))
    assert text.startswith(f"`{results} = jt.triton_call(…, out_shape=(o, ")


@pytest.mark.parametrize(
    "code",
    [
        "loss = jt.triton_call(*xs, kernel=k, out_shape=o)\n",  # which of them is operand 0 is not said
        "loss = jt.triton_call(x, y, 3, kernel=k, out_shape=o)\n",  # a scalar between them shifts the numbers
        "loss = launch(x, y)\n",
        "loss = jt.triton_call(x, y, kernel=k, out_shape=o); b = jt.triton_call(y, x, kernel=k, out_shape=o)\n",
        "not python\n",
        "",
    ],
)
def test_what_cannot_be_told_has_no_patch(tmp_path: Path, code: str) -> None:
    assert patch(tmp_path, code, target=SINCE) == ""


def test_a_call_of_another_library_has_no_patch(tmp_path: Path) -> None:
    assert patch(tmp_path, "loss = jt.triton_call(x, y, kernel=k, out_shape=o)\n", target="my_ffi_call") == ""
