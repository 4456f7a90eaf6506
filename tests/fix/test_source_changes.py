"""The cures as changes of the source: each compares the lines of a diff, and nothing is compiled."""

from pathlib import Path

import pytest

from ligerdiag.fix.call_site import CallSite, Project, find_call_site
from ligerdiag.fix.cure_search import Apply, render_diff
from ligerdiag.fix.declared_aliases import Circumstances, call_in_place, declare, store_out_of_place
from ligerdiag.fix.other_cures import pass_ref, tie_readers
from ligerdiag.fix.source_file import CannotFixError, SourceFile
from ligerdiag.model.findings import CallPlace, SourceLine

OLD, NEW = Circumstances(is_old=True), Circumstances(is_old=False)
KERNEL = """\
@triton.jit
def double_kernel(x_ptr, sum_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    tl.store(sum_ptr, tl.sum(x))
    tl.store(x_ptr + tl.arange(0, N), 2 * x)


"""
SHORT = "jt.triton_call(y, kernel=double_kernel, out_shape=s, N=8)"


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def find_site(
    folder: Path,
    program: str,
    *,
    written: tuple[int, ...] = (0,),
    outputs: int = 1,
    line: int = 0,
    kernel: str = KERNEL,
) -> tuple[Project, CallSite]:
    """Returns the only kernel call of a program, which follows the kernel in a file."""
    path = folder / "mine.py"
    path.write_text(f"import jax\n\n\n{kernel}{program}", encoding="utf-8")
    lines = path.read_text(encoding="utf-8").splitlines()
    line = line or next(number for number, text in enumerate(lines, 1) if "triton_call(" in text or "lambda" in text)
    place = CallPlace(
        line=SourceLine(file=str(path), line=line),
        kernel="double_kernel",
        written=written,
        parameters=("x_ptr",),
        operands=1,
        outputs=outputs,
    )
    project = Project(root=folder, roots=(str(folder),))
    return project, find_call_site(project, place)


def list_changes(folder: Path, cure: Apply, program: str, given: Circumstances = OLD, outputs: int = 1) -> list[str]:
    """Returns the lines that a cure removes and adds."""
    project, site = find_site(folder, program, outputs=outputs)
    cure(project, [site], given)
    diff = render_diff({path: file.render() for path, file in project.files.items() if file.is_changed})
    return [line for line in diff.splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")]


def test_a_declared_alias_is_another_pointer_of_the_kernel_before_0_4(tmp_path: Path) -> None:
    program = f"def f(y, s):\n    total = {SHORT}  # kept\n    return total, y\n"
    assert list_changes(tmp_path, declare, program) == [
        "-def double_kernel(x_ptr, sum_ptr, N: tl.constexpr):",
        "+def double_kernel(x_ptr, sum_ptr, spare_ptr, N: tl.constexpr):",
        "+    # spare_ptr: the new contents of x_ptr, in its bytes",
        f"-    total = {SHORT}  # kept",
        "+    total, y = jt.triton_call(",
        "+        y, kernel=double_kernel, out_shape=(s, y), input_output_aliases={0: 1}, N=8",
        "+    )  # kept",
    ]


def test_since_0_4_the_kernel_stays(tmp_path: Path) -> None:
    program = f"def f(y, s):\n    t = {SHORT}\n    return t, y\n"
    changes = list_changes(tmp_path, declare, program, NEW)
    assert not any("def double_kernel" in line for line in changes)
    assert "+    t, y = jt.triton_call(" in changes


@pytest.mark.parametrize(
    ("outputs", "use", "rest"),
    [
        ("(s, s)", "return {}, y", "return tuple(results), y"),
        ("[s, s]", "return {}, y", "return results, y"),
        ("(s, s)", "return {}[1], y", "return results[1], y"),
        ("(s, s)", "return sum({}), y", "return sum(tuple(results)), y"),
    ],
)
def test_several_results_in_an_expression_keep_their_type(outputs: str, use: str, rest: str, tmp_path: Path) -> None:
    call = SHORT.replace("out_shape=s", f"out_shape={outputs}")
    changes = list_changes(tmp_path, declare, f"def f(y, s):\n    {use.format(call)}\n", NEW, outputs=2)
    assert f"+    {rest}" in changes


def test_a_call_with_other_aliases_gets_one_more(tmp_path: Path) -> None:
    call = SHORT.replace("N=8", "input_output_aliases={2: 0}, N=8")
    assert "input_output_aliases={2: 0, 0: 1}, N=8" in list_changes(
        tmp_path, declare, f"def f(y, s):\n    t = {call}\n    return t, y\n", NEW
    )[2].replace(" " * 8, "")
    not_literal = "`input_output_aliases` of the call is not a literal dict"
    refused = {
        "{0: 0}": "declares an alias of this operand already",
        "ALIASES": not_literal,
        "{i: 0 for i in s}": not_literal,
    }
    for aliases, reason in refused.items():
        program = f"def f(y, s):\n    t = {call.replace('{2: 0}', aliases)}\n    return t, y\n"
        with pytest.raises(CannotFixError, match=reason):
            list_changes(tmp_path, declare, program, NEW)


def test_new_lines_of_a_file_indented_by_tabs_have_tabs_alone(tmp_path: Path) -> None:
    program = f"def f(y, s):\n\tif s:\n\t\ttotal_of_all = {SHORT}\n\treturn total_of_all, y\n"
    path = tmp_path / "mine.py"
    project, site = find_site(tmp_path, program, kernel=KERNEL.replace("    ", "\t"))
    declare(project, [site], NEW)
    added = project.files[path].render().decode()
    assert "\t\t\ty, kernel=double_kernel" in added
    assert not any(" " in line[: len(line) - len(line.lstrip())] for line in added.splitlines())


def test_arguments_on_lines_of_their_own_get_more_such_lines(tmp_path: Path) -> None:
    program = (
        "def f(y, s, r):\n    t, u = jt.triton_call(\n        y,\n        kernel=double_kernel,\n"
        "        out_shape=(\n            s,\n            r,\n        ),\n        N=8,\n    )\n    return t, u, y\n"
    )
    assert list_changes(tmp_path, declare, program, NEW, outputs=2) == [
        "-    t, u = jt.triton_call(",
        "+    t, u, y = jt.triton_call(",
        "+            y,",
        "+        input_output_aliases={0: 2},",
    ]


def test_arguments_that_are_aligned_stay_aligned(tmp_path: Path) -> None:
    call = f"jt.triton_call(y, out_shape=s,\n{' ' * 23}kernel=double_kernel)"
    program = f"def f(y, s):\n    t = {call}\n    return t, y\n"
    assert list_changes(tmp_path, declare, program, NEW)[2:] == [
        "+    t, y = jt.triton_call(y, out_shape=(s, y),",
        "+                          input_output_aliases={0: 1},",
        "+                          kernel=double_kernel)",
    ]


@pytest.mark.parametrize(
    "binding",
    ["call = partial(jt.triton_call, N=8)", "call = jt.triton_call", "from jax_triton import triton_call as call"],
)
def test_another_name_of_triton_call_is_understood(binding: str, tmp_path: Path) -> None:
    program = f"{binding}\n\n\ndef f(y, s):\n    t = call(y, kernel=double_kernel, out_shape=s)\n    return t, y\n"
    project, site = find_site(tmp_path, program, line=15)
    declare(project, [site], NEW)
    assert (
        "t, y = call(y, kernel=double_kernel, out_shape=(s, y), input_output_aliases={0: 1})"
        in site.file.render().decode()
    )
    project, site = find_site(tmp_path, program, line=15)
    if "partial" in binding:
        with pytest.raises(CannotFixError, match=r"the kernel is called through `call` \(mine.py:15\)"):
            call_in_place(project, [site], NEW)
    else:
        call_in_place(project, [site], NEW)
        assert "t, y = call_in_place(y, kernel=double_kernel, written=0, outputs=s)" in site.file.render().decode()


def test_call_in_place_gets_the_position_and_an_import(tmp_path: Path) -> None:
    program = "def f(y, s):\n    t = jt.triton_call(y, kernel=double_kernel, out_shape=s, N=8)\n    return t, y\n"
    assert list_changes(tmp_path, call_in_place, program, NEW) == [
        "+from ligerdiag.in_place import call_in_place",
        "-    t = jt.triton_call(y, kernel=double_kernel, out_shape=s, N=8)",
        "+    t, y = call_in_place(y, kernel=double_kernel, written=0, outputs=s, N=8)",
    ]


def test_a_new_import_goes_beside_those_of_jax(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text('"""A model."""\n\nimport os\n\nimport jax\n\nimport own\n\nX = 1\n', encoding="utf-8")
    file = SourceFile(path)
    file.add_import("import jax.numpy as jnp")
    assert "import jax\nimport jax.numpy as jnp\n\nimport own\n" in file.render().decode()


def test_out_of_place_stores_through_a_new_pointer_and_loads_through_the_old_one(tmp_path: Path) -> None:
    program = f"def f(y, s):\n    t = {SHORT}\n    return t, y\n"
    changes = list_changes(tmp_path, store_out_of_place, program)
    assert "+    tl.store(new_x_ptr + tl.arange(0, N), 2 * x)" in changes
    assert "+def double_kernel(x_ptr, sum_ptr, new_x_ptr, N: tl.constexpr):" in changes
    assert not any("tl.load" in line for line in changes)


def test_the_type_of_a_pointer_is_no_access(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    program = f"def f(y, s):\n    t = {SHORT}\n    return t, y\n"
    _, site = find_site(tmp_path, program)
    text = path.read_text(encoding="utf-8").replace("2 * x)", "(2 * x).to(x_ptr.dtype.element_ty))")
    path.write_text(text, encoding="utf-8")
    project = Project(root=tmp_path, roots=(str(tmp_path),))
    place = CallPlace(
        line=SourceLine(file=str(path), line=site.file.get_lines(site.call)[0]),
        kernel="double_kernel",
        written=(0,),
        parameters=("x_ptr",),
        operands=1,
        outputs=1,
    )
    store_out_of_place(project, [find_call_site(project, place)], OLD)
    changed = project.files[path].render().decode()
    assert "tl.store(new_x_ptr + tl.arange(0, N), (2 * x).to(x_ptr.dtype.element_ty))" in changed


def test_a_pointer_that_is_computed_once_for_loads_and_stores_is_not_redirected(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    project, site = find_site(tmp_path, f"def f(y, s):\n    t = {SHORT}\n    return t, y\n")
    text = path.read_text(encoding="utf-8").replace("    x = tl.load(", "    at = x_ptr + 0\n    x = tl.load(")
    path.write_text(text, encoding="utf-8")
    project = Project(root=tmp_path, roots=(str(tmp_path),))
    place = CallPlace(
        line=SourceLine(file=str(path), line=text[: text.index("triton_call")].count("\n") + 1),
        kernel="double_kernel",
        written=(0,),
        parameters=("x_ptr",),
        operands=1,
        outputs=1,
    )
    site = find_call_site(project, place)
    with pytest.raises(CannotFixError, match="used in the kernel outside of loads and stores"):
        store_out_of_place(project, [site], OLD)


def test_a_call_inside_of_an_expression_gets_a_statement_of_its_own(tmp_path: Path) -> None:
    program = f"def f(y, s):\n    # the sum\n    return {{'t': {SHORT}, 'y': y}}\n"
    assert list_changes(tmp_path, declare, program, NEW)[1:] == [
        "+    result, y = jt.triton_call(",
        "+        y, kernel=double_kernel, out_shape=(s, y), input_output_aliases={0: 1}, N=8",
        "+    )",
        "+    return {'t': result, 'y': y}",
    ]


def test_callers_get_the_new_contents(tmp_path: Path) -> None:
    program = f"def f(y, s):\n    return {SHORT}\n\n\ndef g(h, s):\n    t = f(h, s)\n    return t + h\n"
    changes = list_changes(tmp_path, declare, program, Circumstances(is_old=False, depth=1))
    assert "+    return result, y" in changes
    assert changes[-2:] == ["-    t = f(h, s)", "+    t, h = f(h, s)"]


def test_a_caller_in_another_file_is_changed_as_well(tmp_path: Path) -> None:
    other = tmp_path / "model.py"
    other.write_text("from mine import f\n\n\ndef g(h, s):\n    t = f(h, s)\n    return t + h\n", encoding="utf-8")
    program = f"def f(y, s):\n    return {SHORT}\n"
    changes = list_changes(tmp_path, declare, program, Circumstances(is_old=False, depth=1))
    assert changes[-2:] == ["-    t = f(h, s)", "+    t, h = f(h, s)"]


def test_another_call_of_the_kernel_gets_the_new_pointer_too(tmp_path: Path) -> None:
    other = "def g(z, s):\n    total = jt.triton_call(z, kernel=double_kernel, out_shape=s, N=8)\n    return total\n"
    program = f"def f(y, s):\n    t = {SHORT}\n    return t, y\n\n\n{other}"
    changes = list_changes(tmp_path, declare, program)
    assert "+    total, _ = jt.triton_call(" in changes


def test_a_barrier_ties_the_array_to_the_results(tmp_path: Path) -> None:
    program = f"def f(y, s):\n    t = {SHORT}\n    return t, y\n"
    assert list_changes(tmp_path, tie_readers, program) == ["+    t, y = jax.lax.optimization_barrier((t, y))"]


def test_a_ref_needs_jax_triton_0_4(tmp_path: Path) -> None:
    program = f"def f(y, s):\n    t = {SHORT}\n    return t, y\n"
    assert list_changes(tmp_path, pass_ref, program, NEW) == [
        f"-    t = {SHORT}",
        "+    y_ref = jax.new_ref(y)",
        f"+    t = {SHORT.replace('(y,', '(y_ref,')}",
        "+    y = y_ref[...]",
    ]
    with pytest.raises(CannotFixError, match=r"only jax-triton 0\.4 and later take Refs"):
        list_changes(tmp_path, pass_ref, program)


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (f"f = lambda y, s: {SHORT}\n", "inside of a lambda: move it into a statement"),
        (f"def f(y, s):\n    t = {SHORT}; return t\n", "the line of the call has several statements"),
        (f"def f(y, s):\n    if {SHORT}:\n        return y\n", "in the head of a compound statement"),
        (f"def f(y, s):\n    return [{SHORT} for _ in s]\n", "inside of a comprehension"),
    ],
)
def test_a_call_that_cannot_be_changed_has_a_reason(tmp_path: Path, program: str, reason: str) -> None:
    with pytest.raises(CannotFixError, match=reason):
        find_site(tmp_path, program)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("<string>", "is in no file"),
        ("/x/site-packages/library/ops.py", "belongs to an installed package"),
        ("/etc/passwd", "is not a Python file of this project"),
        ("/elsewhere/mine.py", "is not a Python file of this project"),
    ],
)
def test_a_file_of_others_is_not_changed(tmp_path: Path, name: str, reason: str) -> None:
    with pytest.raises(CannotFixError, match=reason):
        Project(root=tmp_path, roots=(str(tmp_path),)).load(name)


def test_a_generated_file_is_not_changed(tmp_path: Path) -> None:
    (tmp_path / "made.py").write_text("# Code generated by kernels.toml. DO NOT EDIT.\n", encoding="utf-8")
    with pytest.raises(CannotFixError, match="change the program that writes it"):
        Project(root=tmp_path, roots=(str(tmp_path),)).load(str(tmp_path / "made.py"))


def test_the_diff_applies_with_git(tmp_path: Path) -> None:
    import subprocess

    project, site = find_site(tmp_path, f"def f(y, s):\n    t = {SHORT}\n    return t, y")
    declare(project, [site], OLD)
    texts = {path: file.render() for path, file in project.files.items() if file.is_changed}
    subprocess.run(["git", "apply"], input=render_diff(texts).encode(), check=True, cwd=tmp_path)
    assert (tmp_path / "mine.py").read_bytes() == texts[tmp_path / "mine.py"]


def test_arguments_that_are_unpacked_are_tied_as_a_whole_and_not_declared(tmp_path: Path) -> None:
    program = "def f(*y, s=0):\n    t = jt.triton_call(*y, kernel=double_kernel, out_shape=s)\n    return t, y\n"
    assert list_changes(tmp_path, tie_readers, program) == ["+    t, y = jax.lax.optimization_barrier((t, y))"]
    for cure in (declare, call_in_place, store_out_of_place):
        with pytest.raises(CannotFixError, match=r"that `\*` unpacks \(mine.py:12\)"):
            list_changes(tmp_path, cure, program)


def test_new_contents_that_nobody_reads_get_no_name(tmp_path: Path) -> None:
    program = f"def f(y, s):\n    return {SHORT}\n"
    assert "+    result, _ = jt.triton_call(" in list_changes(tmp_path, declare, program, NEW)
    loop = f"def f(y, s):\n    for _ in s:\n        z = y + 1\n        t = {SHORT}\n    return t\n"
    assert "+        t, y = jt.triton_call(" in list_changes(tmp_path, declare, loop, NEW)
