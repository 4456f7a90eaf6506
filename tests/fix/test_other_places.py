"""Cures that change another place than the kernel's call, as changes of the source; nothing is compiled."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from ligerdiag.fix.call_site import Project
from ligerdiag.fix.case_arguments import (
    advise_flags,
    list_donations,
    list_fewer_donations,
    list_flags,
    list_kept_arguments,
)
from ligerdiag.fix.cure_search import ListVariants, render_diff
from ligerdiag.fix.source_file import CannotFixError, UnrelatedCureError
from ligerdiag.fix.traced_values import list_fewer_aliases, list_filled, list_traced_zeros
from ligerdiag.fix.wrapper_modes import list_wrapper_modes
from ligerdiag.model.findings import CallPlace, Finding, Severity, SourceLine
from ligerdiag.model.jobs import CaseSpec, Source

KERNEL = "jt.triton_call(*operands, kernel=k, out_shape=s)"


def list_forms(
    folder: Path,
    cure: ListVariants,
    program: str,
    *,
    marks: Sequence[str] = (),
    case_id: str = "mine",
    params: tuple[str, ...] = (),
    **finding: object,
) -> list[list[str]]:
    """Returns for each form of a cure the lines that it removes and adds, in the order in which they are judged.

    marks: texts of the lines from the kernel's call outwards, for a finding about such a call.
    """
    path = folder / "mine.py"
    path.write_text(program, encoding="utf-8")
    lines = program.splitlines()
    places = [
        SourceLine(file=str(path), line=next(n for n, text in enumerate(lines, 1) if mark in text)) for mark in marks
    ]
    call = CallPlace(line=places[0], callers=tuple(places[1:])) if places else None
    given = {"message": "", "source": places[0] if places else None, "call": call, **finding}
    about = Finding(rule="LD006", severity=Severity.WARNING, **given)  # type: ignore[arg-type]
    source = Source(file=str(path), root=str(folder))
    case = CaseSpec(id=case_id, name="mine", params=params, source=source, mesh={}, expected=None, about="", draws="")
    batches = cure(Project(root=folder, roots=(str(folder),)), [about], case)
    diffs = [render_diff(texts) for batch in batches for texts in batch]
    return [[one for one in diff.splitlines() if one[:1] in "+-" and one[:3] not in ("+++", "---")] for diff in diffs]


def test_a_flag_is_turned_at_the_outermost_call_that_passes_it(tmp_path: Path) -> None:
    program = (
        f"def low(operands, in_place):\n    return {KERNEL}\n\n\ndef high(x, in_place=True):\n"
        "    return low([x], in_place=in_place)\n\n\ndef step(x):\n    return high(x)\n"
    )
    forms = list_forms(tmp_path, list_wrapper_modes, program, marks=(KERNEL, "low([x]", "high(x)\n".strip()))
    assert forms[0] == ["-    return high(x)", "+    return high(x, in_place=False)"]
    assert forms[1] == ["-    return low([x], in_place=in_place)", "+    return low([x], in_place=False)"]


def test_the_members_of_an_enumeration_are_tried_and_a_declared_alias_first(tmp_path: Path) -> None:
    (tmp_path / "ways.py").write_text(
        "from enum import Enum\n\n\nclass Way(Enum):\n    HIDDEN = 1\n    OUT_OF_PLACE = 2\n    ALIASED = 3\n",
        encoding="utf-8",
    )
    program = (
        "from ways import Way\n\n\ndef step(x, way: Way):\n    return partial(find('low'), way=way)(x)\n\n\n"
        f"def low(operands, way):\n    return {KERNEL}\n"
    )
    forms = list_forms(tmp_path, list_wrapper_modes, program, marks=(KERNEL, "partial("))
    assert [one[1].strip() for one in forms[:2]] == [
        "+    return partial(find('low'), way=Way.ALIASED)(x)",
        "+    return partial(find('low'), way=Way.OUT_OF_PLACE)(x)",
    ]
    assert not any("HIDDEN" in line for form in forms for line in form)


def test_an_argument_that_is_not_about_writing_is_left_alone(tmp_path: Path) -> None:
    program = f'def low(operands, casting="gemma"):\n    return {KERNEL}\n\n\ndef step(x):\n    return low([x])\n'
    with pytest.raises(UnrelatedCureError, match="no argument of the functions around"):
        list_forms(tmp_path, list_wrapper_modes, program, marks=(KERNEL, "low([x])"))


CASES = """\
@jax.jit
def plain(state, x):
    return state


step = jax.jit(update, donate_argnums=(0, 1))


def update(state, x):
    return state


FIRST = Case(name="mine", params=("a",), function=step, args=(Arg(shape=4, donate=True), Arg(shape=4)))
OTHER = Case(name="mine", params=("b",), function=step, args=ARGS)
"""


def test_a_flag_of_xla_goes_into_the_case_whose_params_fit(tmp_path: Path) -> None:
    help_text = "compile with `XLA_FLAGS=--xla_gpu_enable_dynamic_slice_fusion=false`"
    forms = list_forms(tmp_path, list_flags, CASES, params=("b",), help=help_text)
    assert [line for line in forms[0] if line[0] == "+"] == [
        '+OTHER = Case(name="mine", params=("b",), function=step, args=ARGS,'
        ' xla_flags={"xla_gpu_enable_dynamic_slice_fusion": False})'
    ]
    finding = Finding(rule="LD022", severity=Severity.ERROR, message="", help=help_text)
    assert '`export XLA_FLAGS="$XLA_FLAGS --xla_gpu_enable_dynamic_slice_fusion=false"`' in advise_flags([finding])


def test_several_cases_that_fit_are_not_changed(tmp_path: Path) -> None:
    with pytest.raises(CannotFixError, match="more than one call of `Case`"):
        list_forms(
            tmp_path,
            list_flags,
            CASES.replace('"a"', "p").replace('"b"', "p"),
            params=("c",),
            help="XLA_FLAGS=--xla_a=1",
        )


def test_only_the_named_argument_is_no_longer_donated(tmp_path: Path) -> None:
    message = "`x` (1.0 MiB) is donated, but no output takes these bytes: the program returns a scalar"
    forms = list_forms(tmp_path, list_fewer_donations, CASES, params=("a",), message=message, help="do not donate it")
    assert forms == [
        [
            "-step = jax.jit(update, donate_argnums=(0, 1))",
            "+step = jax.jit(update, donate_argnums=(0,))",
        ]
    ]


def test_without_a_name_nothing_is_donated(tmp_path: Path) -> None:
    forms = list_forms(tmp_path, list_fewer_donations, CASES, params=("a",), help="do not donate these arguments")
    assert [line for line in forms[0] if line[0] == "+"] == [
        "+step = jax.jit(update)",
        '+FIRST = Case(name="mine", params=("a",), function=step, args=(Arg(shape=4), Arg(shape=4)))',
    ]


def test_the_arguments_of_other_cases_stay_donated(tmp_path: Path) -> None:
    makers = "def make():\n    return [Arg(shape=4, donate=True)]\n\n\nB = [Arg(shape=4, donate=True)]\n"
    cases = 'ONE = Case(name="mine", function=f, args=make())\nTWO = Case(name="other", function=f, args=B)\n'
    forms = list_forms(tmp_path, list_fewer_donations, makers + cases, help="do not donate these arguments")
    assert forms == [["-    return [Arg(shape=4, donate=True)]", "+    return [Arg(shape=4)]"]]
    unknown = makers + cases.replace("args=make()", "args=A + B")
    with pytest.raises(CannotFixError, match="the donation is not written in the case's file"):
        list_forms(tmp_path, list_fewer_donations, unknown, help="do not donate these arguments")


def test_an_unused_argument_is_kept_by_the_jit_or_by_the_case(tmp_path: Path) -> None:
    text = "give `jax.jit` `keep_unused=True`"
    forms = list_forms(tmp_path, list_kept_arguments, CASES, params=("a",), help=text)
    assert forms[0][1] == "+step = jax.jit(update, donate_argnums=(0, 1), keep_unused=True)"
    plain = CASES.replace("function=step", "function=other")
    forms = list_forms(tmp_path, list_kept_arguments, plain, params=("a",), help=text)
    assert forms[0][1].endswith("Arg(shape=4)), keep_unused=True)")
    bare = CASES.replace("function=step", "function=plain")
    forms = list_forms(tmp_path, list_kept_arguments, bare, params=("a",), help=text)
    assert forms[0] == ["-@jax.jit", "+@jax.jit(keep_unused=True)"]


def test_the_overwritten_argument_is_donated(tmp_path: Path) -> None:
    forms = list_forms(
        tmp_path,
        list_donations,
        CASES,
        params=("a",),
        message="`k` overwrites the caller's argument `x`, which is not donated",
        help="declare the write; or donate it, if the caller is done with it",
    )
    assert forms[0][1].endswith("args=(Arg(shape=4, donate=True), Arg(shape=4, donate=True)))")


def test_a_constant_waits_for_an_argument_of_its_function(tmp_path: Path) -> None:
    program = (
        "import jax\n\n\ndef sine(size, x):\n    y = call(x)\n    ref = jax.new_ref(jnp.full(size, 0.0))\n"
        "    ref[...] = y\n    return ref[...]\n"
    )
    forms = list_forms(
        tmp_path, list_traced_zeros, program, marks=("return ref",), call=None, help="such as `jax.new_ref(0 * x)`"
    )
    assert [one[1] for one in forms] == [
        "+    ref = jax.new_ref(jax.lax.optimization_barrier((jnp.full(size, 0.0), x))[0])",
        "+    ref = jax.new_ref(jax.lax.optimization_barrier((jnp.full(size, 0.0), size))[0])",
    ]


@pytest.mark.parametrize(
    ("memory", "zeros"),
    [
        ("lax.empty((8, 4), x.dtype)", "jnp.zeros((8, 4), x.dtype)"),
        ("jax.empty_ref(jax.ShapeDtypeStruct((8,), x.dtype))", "jax.new_ref(jnp.zeros((8,), x.dtype))"),
        ("jax.empty_ref(jax.typeof(x))", "jax.new_ref(jnp.zeros_like(jax.typeof(x)))"),
    ],
)
def test_memory_that_nobody_has_written_gets_zeros(tmp_path: Path, memory: str, zeros: str) -> None:
    program = (
        f"import jax\nimport jax.numpy as jnp\n\n\ndef step(x):\n    total = {memory}\n    return call(x, total)\n"
    )
    text = "fill the array or the Ref with zeros"
    forms = list_forms(tmp_path, list_filled, program, marks=("return call",), call=None, help=text)
    assert forms == [[f"-    total = {memory}", f"+    total = {zeros}"]]


@pytest.mark.parametrize(
    ("aliases", "kept"),
    [
        ("{0: 0, 1: 0}", "{0: 0}"),
        ("both", "{number: output for number, output in both.items() if number != 1}"),
    ],
)
def test_the_second_alias_of_a_buffer_goes(tmp_path: Path, aliases: str, kept: str) -> None:
    program = f"def add(a, b, both):\n    return pl.pallas_call(k, input_output_aliases={aliases})(a, b)\n"
    forms = list_forms(
        tmp_path,
        list_fewer_aliases,
        program,
        marks=("pallas_call",),
        operand=1,
        message="output {} aliases operand 1, and another alias names the same buffer",
    )
    assert f"input_output_aliases={kept}" in "".join(forms[0])
