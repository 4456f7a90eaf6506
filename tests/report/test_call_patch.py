"""The remedy as the user's own line, changed."""

from pathlib import Path

import pytest

from ligerdiag.model.findings import CallPlace, ReadPlace, SourceLine
from ligerdiag.rules.call_patch import IMPORT, CallPatch, compute_patch

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
    patch = compute_patch(call, operand=operand, source_roots=[str(folder)])
    return "" if patch is None else patch.sentence


@pytest.mark.parametrize("target", [BEFORE, SINCE])
def test_the_patch_fits_every_version_of_jax_triton(target: str, tmp_path: Path) -> None:
    code = "loss = jt.triton_call(\n    x,\n    y,\n    kernel=k,\n    out_shape=losses,\n)\n"
    assert patch(tmp_path, code, target=target, operand=1) == (
        "`loss, y = call_in_place(x, y, written=1, outputs=losses, …)`, with `from ligerdiag.in_place import"
        " call_in_place`, and use `y` from there on (before jax-triton 0.4 the kernel also needs a spare pointer"
        " for each new value, after those of its outputs)"
    )


def test_all_operands_that_a_call_overwrites_are_declared_in_one_patch(tmp_path: Path) -> None:
    code = "norm = jt.triton_call(p, g, m, kernel=adam, out_type=(scalar,))\n"
    text = patch(tmp_path, code, target=SINCE, operand=2, operands=3, written=(0, 2))
    assert text.startswith("`norm, p, m = call_in_place(p, g, m, written=(0, 2), outputs=[scalar], …)`")
    assert "and use `p` and `m` from there on" in text


KERNEL = "def k(rate, x_ptr, y_ptr, kept_ptr):\n    tl.store(y_ptr, 1.0)\n"


def patch_scalar(folder: Path, code: str, *, operands: int = 2, name: str = "y_ptr") -> str:
    """Returns the patch for the last line of `code`, a call whose kernel overwrites operand 1."""
    file = folder / "mine.py"
    file.write_text(code, encoding="utf-8")
    call = CallPlace(
        line=SourceLine(file=str(file), line=code.count("\n")),
        stores=(SourceLine(file=str(folder / "kernels.py"), line=2),),
        target=SINCE,
        operands=operands,
        outputs=1,
        written=(1,),
        parameters=(name,),
        kernel="k",
    )
    patch = compute_patch(call, operand=1, source_roots=[str(folder)])
    return "" if patch is None else patch.sentence


@pytest.mark.parametrize("scalar", ["0.3", "1", "rate"])
@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_a_scalar_before_the_array_counts(scalar: str, is_elsewhere: bool, tmp_path: Path) -> None:
    """The custom call has no scalars, and the payload has none that is 1: only the kernel's source has the position."""
    call = f"kept = jt.triton_call({scalar}, x, y, kernel=k, out_shape=o)\n"
    (tmp_path / "kernels.py").write_text(KERNEL if is_elsewhere else "", encoding="utf-8")
    text = patch_scalar(tmp_path, call if is_elsewhere else KERNEL + call)
    assert text.startswith(f"`kept, y = call_in_place({scalar}, x, y, written=2, outputs=o, …)`")
    assert text.endswith("; `written` counts scalars, too, so it is 2 for operand 1, `y_ptr`")


def test_an_array_that_is_passed_by_name_is_declared_by_name(tmp_path: Path) -> None:
    text = patch_scalar(tmp_path, f"{KERNEL}kept = jt.triton_call(0.3, x, y_ptr=y, kernel=k, out_shape=o)\n")
    assert text.startswith('`kept, y = call_in_place(0.3, x, y_ptr=y, written="y_ptr", outputs=o, …)`')


@pytest.mark.parametrize(
    "code",
    [
        "kept = jt.triton_call(0.3, x, y, kernel=k, out_shape=o)\n",  # the kernel's source is not known
        f"{KERNEL}{KERNEL}kept = jt.triton_call(0.3, x, y, kernel=k, out_shape=o)\n",  # nobody knows which one it is
        f"{KERNEL}kept = jt.triton_call(0.3, x, 2.0, kernel=k, out_shape=o)\n",  # no array: this is another call
    ],
)
def test_a_call_with_scalars_whose_positions_are_unknown_has_no_patch(code: str, tmp_path: Path) -> None:
    assert patch_scalar(tmp_path, code) == ""


def test_without_the_kernel_s_source_an_array_is_declared_by_name(tmp_path: Path) -> None:
    text = patch_scalar(tmp_path, "kept = jt.triton_call(x, y, kernel=k, out_shape=o)\n")
    assert text.startswith('`kept, y = call_in_place(x, y, written="y_ptr", outputs=o, …)`')


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


def rewrite(folder: Path, code: str, *, line: int = 1, outputs: int = 1, operands: int = 2) -> CallPatch:
    file = folder / "mine.py"
    file.write_text(code, encoding="utf-8")
    call = CallPlace(
        line=SourceLine(file=str(file), line=line), target=SINCE, operands=operands, outputs=outputs, written=(1,)
    )
    patch = compute_patch(call, operand=1, source_roots=[str(folder)])
    assert patch is not None
    return patch


def test_the_statement_is_rewritten_with_its_own_layout(tmp_path: Path) -> None:
    code = "def f(x, y):\n    loss = jt.triton_call(\n        x,\n        y,  # the logits\n        kernel=k,\n"
    code += "        out_shape=jax.ShapeDtypeStruct((8,), y.dtype),\n        grid=(8,),\n    )\n    return loss, y\n"
    patch = rewrite(tmp_path, code, line=2)
    assert (patch.line, patch.imports) == (2, (IMPORT,))
    assert patch.before == tuple(code.splitlines()[1:8])
    assert patch.after == (
        "    loss, y = call_in_place(",
        "        x,",
        "        y,  # the logits",
        "        kernel=k,",
        "        written=1,",
        "        outputs=jax.ShapeDtypeStruct((8,), y.dtype),",
        "        grid=(8,),",
        "    )",
    )


@pytest.mark.parametrize(
    ("code", "outputs", "after"),
    [
        (
            "def f(x, y):\n    return jt.triton_call(x, y, kernel=k, out_shape=o), y\n",
            1,
            [
                "    result, y = call_in_place(x, y, kernel=k, written=1, outputs=o)",
                "    return result, y",
            ],
        ),
        (
            "jt.triton_call(x, y, out_type=(), kernel=k)\n",
            0,
            ["y, = call_in_place(x, y, written=1, outputs=(), kernel=k)"],
        ),
        (
            "a = jt.triton_call(x, y, out_shape=[o])  # ü\n",
            1,
            ["*a, y = call_in_place(x, y, written=1, outputs=[o])  # ü"],
        ),
        ("a, = jt.triton_call(x, y, out_shape=[o])\n", 1, ["a, y = call_in_place(x, y, written=1, outputs=[o])"]),
        (
            "a = b = jt.triton_call(x, y, out_shape=o)\n",
            1,
            ["result, y = call_in_place(x, y, written=1, outputs=o)", "a = b = result"],
        ),
    ],
)
def test_each_form_of_a_statement_is_rewritten(tmp_path: Path, code: str, outputs: int, after: list[str]) -> None:
    assert list(rewrite(tmp_path, code, line=code.count("\n"), outputs=outputs).after) == after


@pytest.mark.parametrize(
    "code",
    [
        "a = jt.triton_call(x, y, kernel=k, **rest)\n",
        "a = [jt.triton_call(x, y, out_shape=o) for x in xs]\n",
        "a = jt.triton_call(x, y, out_shape=o) if x else y\n",
        "a = 1; b = jt.triton_call(x, y, out_shape=o)\n",
        "with jt.triton_call(x, y, out_shape=o):\n    pass\n",
    ],
)
def test_a_call_that_cannot_be_moved_is_only_described(tmp_path: Path, code: str) -> None:
    patch = rewrite(tmp_path, code)
    assert (patch.before, patch.after) == ((), ())
    assert "call_in_place(x, y, written=1, outputs=" in patch.sentence


def test_an_import_that_is_there_is_not_added(tmp_path: Path) -> None:
    assert rewrite(tmp_path, f"{IMPORT}\na = jt.triton_call(x, y, out_shape=o)\n", line=2).imports == ()


WRAPPED = "def softmax_(x):\n    lse = jt.triton_call(x, kernel=k, out_shape=o)\n    return lse\n"


def use(folder: Path, *reads: ReadPlace, callers: tuple[SourceLine, ...] = ()) -> str:
    """Returns the last part of the patch for these reads, without the words on older versions of jax-triton."""
    file = folder / "mine.py"
    file.write_text(WRAPPED, encoding="utf-8")
    place = SourceLine(file=str(file), line=2, function="softmax_")
    call = CallPlace(line=place, target=SINCE, operands=1, outputs=1, callers=callers)
    found = compute_patch(call, operand=0, source_roots=[str(folder)], reads=reads)
    assert found is not None
    return found.use.rpartition(" (before")[0]


def in_joint(**changes: bool) -> ReadPlace:
    return ReadPlace(line=SourceLine(file="mixture.py", line=10, function="joint"), **changes)


FROM = (SourceLine(file="mixture.py", line=9, function="joint"),)


def test_the_function_around_the_call_has_to_return_the_value_to_its_readers(tmp_path: Path) -> None:
    assert use(tmp_path, in_joint(), callers=FROM) == (
        "use `x` from there on: return it from `softmax_`, and use it in `joint` (mixture.py:10); all other callers of"
        " `softmax_` then get it as well (`ligerdiag fix` finds them)"
    )
    between = SourceLine(file="mixture.py", line=5, function="step.<locals>.loss")
    assert use(tmp_path, in_joint(), callers=(between, *FROM)) == (
        "use `x` from there on: return it from `softmax_` and `loss`, and use it in `joint` (mixture.py:10); all other"
        " callers of `softmax_` and `loss` then get it as well (`ligerdiag fix` finds them)"
    )
    far = tuple(SourceLine(file="mixture.py", line=20 + n, function=f"f{n}") for n in range(3))
    assert use(tmp_path, in_joint(), callers=(*far, *FROM)) == "use `x` from there on"


def test_a_function_that_returns_the_array_already_need_not_be_changed(tmp_path: Path) -> None:
    """As `append(cache, k)` does for a cache that it writes in place, and `step` with what `append` returned."""
    text = "def append(c):\n    n = jt.triton_call(c, kernel=k, out_shape=o)\n    return n, c\n\n\n"
    text += "def step(c):\n    n, c = append(c)\n    return {}\n\n\ndef attend(c):\n    return c @ c\n\n\n"
    text += "def program(c):\n    c = step(c)\n    return attend(c)\n"
    frames = [("append", 2), ("step", 7), ("program", 16)]
    home, *callers = [SourceLine(file=str(tmp_path / "mine.py"), line=n, function=name) for name, n in frames]
    call = CallPlace(line=home, target=SINCE, operands=1, outputs=1, callers=tuple(callers))
    read = ReadPlace(line=SourceLine(file=str(tmp_path / "mine.py"), line=12, function="attend"))
    uses: list[str] = []
    for returned in ("c", "c + n"):
        (tmp_path / "mine.py").write_text(text.format(returned), encoding="utf-8")
        found = compute_patch(call, operand=0, source_roots=[str(tmp_path)], reads=[read])
        assert found is not None
        uses.append(found.use.partition(f" ({tmp_path}")[0])
    assert uses == [
        "use `c` from there on: `append` and `step` return it already; use the returned array in `attend`",
        "use `c` from there on, which `append` returns already: return it from `step`, and use it in `attend`",
    ]


def test_a_reader_beside_the_call_or_in_a_backward_pass_needs_no_way(tmp_path: Path) -> None:
    beside = ReadPlace(line=SourceLine(file=str(tmp_path / "mine.py"), line=3, function="softmax_.<locals>.inner"))
    assert use(tmp_path, beside, in_joint(in_backward=True), callers=FROM) == "use `x` from there on"


def test_a_reader_of_the_old_contents_keeps_them(tmp_path: Path) -> None:
    """`use x from there on` was once the remedy for a reader that must not see the new contents."""
    old = in_joint(needs_old=True)
    assert use(tmp_path, old) == (
        "XLA keeps the old contents of `x` for this reader; each reader that needs the new ones has to use the value that"
        " the call returns"
    )
    new = ReadPlace(line=SourceLine(file="mixture.py", line=12, function="joint"))
    assert use(tmp_path, old, new, callers=FROM) == (
        "use `x` from there on where you need the new contents: return it from `softmax_`, and use it in `joint`"
        " (mixture.py:12); all other callers of `softmax_` then get it as well (`ligerdiag fix` finds them)"
    )


def test_a_write_that_nobody_reads_names_the_function_whose_other_callers_may(tmp_path: Path) -> None:
    """The array is an argument of `softmax_`; without a caller, that is the function that the case is about."""
    assert use(tmp_path, callers=FROM) == (
        "use `x` from there on; other callers of `softmax_` that read the array afterwards need it, too"
    )
    assert use(tmp_path) == "use `x` from there on"
