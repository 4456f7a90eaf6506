"""The remedy as the user's own line, changed."""

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
    outputs: int = 1,
    written: tuple[int, ...] = (),
    is_declared: bool = False,
) -> str:
    file = folder / "mine.py"
    file.write_text(code, encoding="utf-8")
    place = SourceLine(file=str(file), line=line)
    call = CallPlace(
        line=place,
        target=target,
        operands=operands,
        outputs=outputs,
        written=written,
        is_declared=is_declared,
    )
    return render_patch(call, operand=operand, source_roots=[str(folder)])


@pytest.mark.parametrize("target", [BEFORE, SINCE])
def test_the_patch_fits_every_version_of_jax_triton(target: str, tmp_path: Path) -> None:
    code = "loss = jt.triton_call(\n    x,\n    y,\n    kernel=k,\n    out_shape=losses,\n)\n"
    assert patch(tmp_path, code, target=target, operand=1) == (
        "`loss, y = call_in_place(x, y, written=1, outputs=losses, …)`, with `from ligerdiag.in_place import"
        " call_in_place`, and use `y` from there on (before jax-triton 0.4: add a spare pointer for each"
        " after the kernel's outputs)"
    )


def test_all_operands_that_a_call_overwrites_are_declared_in_one_patch(tmp_path: Path) -> None:
    code = "norm = jt.triton_call(p, g, m, kernel=adam, out_type=(scalar,))\n"
    text = patch(tmp_path, code, target=SINCE, operand=2, operands=3, written=(0, 2))
    assert text.startswith("`norm, p, m = call_in_place(p, g, m, written=(0, 2), outputs=[scalar], …)`")
    assert "and use `p` and `m` from there on" in text


def test_a_declared_write_is_not_declared_again(tmp_path: Path) -> None:
    """`ref = jax.new_ref(ref)` was once the remedy for a call with a Ref that XLA had fused with a slice."""
    assert not patch(tmp_path, "o = jt.triton_call(ref, y, kernel=k)\n", target=SINCE, is_declared=True)


def test_an_operand_without_a_name_gets_one(tmp_path: Path) -> None:
    text = patch(tmp_path, "loss = jt.triton_call(x.T, y, kernel=k, out_shape=o)\n", target=SINCE)
    assert text.startswith("`loss, updated = call_in_place(x.T, y, written=0, outputs=o, …)`")


@pytest.mark.parametrize(
    ("code", "outputs", "results"),
    [
        ("return_ = (jt.triton_call(x, y, kernel=k, out_shape=o), x)\n", 1, "result, x"),
        ("def f(x, y):\n    return jt.triton_call(x, y, kernel=k, out_shape=o)\n", 1, "result, x"),
        ("x = jt.triton_call(x, y, kernel=k, out_shape=o)\n", 1, "x, updated"),
        ("jt.triton_call(x, y, kernel=k, out_shape=o)\n", 1, "_, x"),
        ("jt.triton_call(x, y, kernel=k, out_type=())\n", 0, "x,"),
        ("a, b = jt.triton_call(x, y, kernel=k, out_shape=(o, p))\n", 2, "a, b, x"),
        ("both = jt.triton_call(x, y, kernel=k, out_shape=(o, p))\n", 2, "*both, x"),
    ],
)
def test_the_patch_assigns_the_present_results_and_one_more(
    tmp_path: Path, code: str, outputs: int, results: str
) -> None:
    text = patch(tmp_path, code, target=BEFORE, line=code.count("\n"), outputs=outputs)
    assert text.startswith(f"`{results} = call_in_place(x, y, written=0, outputs=")


@pytest.mark.parametrize(
    "code",
    [
        "loss = jt.triton_call(*xs, kernel=k, out_shape=o)\n",  # the call does not show which of them is operand 0
        "loss = jt.triton_call(x, y, 3, kernel=k, out_shape=o)\n",  # a scalar between them shifts the numbers
        "loss = launch(x, y)\n",
        "loss = jt.triton_call(x, y, kernel=k, out_shape=o); b = jt.triton_call(y, x, kernel=k, out_shape=o)\n",
        "not python\n",
        "",
    ],
)
def test_an_unreadable_call_has_no_patch(tmp_path: Path, code: str) -> None:
    assert patch(tmp_path, code, target=SINCE) == ""


def test_a_call_of_another_library_has_no_patch(tmp_path: Path) -> None:
    assert patch(tmp_path, "loss = jt.triton_call(x, y, kernel=k, out_shape=o)\n", target="my_ffi_call") == ""
