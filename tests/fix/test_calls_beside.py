"""Other kernel calls in a function that returns more after a cure: changed as well, or named."""

from dataclasses import replace
from pathlib import Path

import pytest

from ligerdiag.fix.cure_search import Apply, render_diff
from ligerdiag.fix.declared_aliases import Circumstances, call_in_place, declare
from ligerdiag.fix.readers.calls_beside import list_calls_beside
from ligerdiag.fix.source_file import CannotFixError
from tests.fix.test_source_changes import KERNEL, find_site

CALL = "jt.triton_call(y, kernel=double_kernel, out_shape=s, N=8)"
WIDE = CALL.replace("N=8", "N=8, num_warps=8")
DECLARED = WIDE.replace("out_shape=s", "out_shape=(s, y), input_output_aliases={0: 1}") + "[0]"
CALLER = "def g(h, s):\n    t = f(h, s)\n    return t + h\n"


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def cure_second(
    folder: Path, first: str, *, cure: Apply = declare, is_old: bool = False, before: str = ""
) -> tuple[list[str], list[str], list[str]]:
    """Returns the lines that a cure of the second way through `f` adds, and the calls that it also changes, and leaves.
    first: the statement of the first way.
    """
    program = f"{before}def f(y, s, big=False):\n    if big:\n        {first}\n    return {CALL}\n\n\n{CALLER}"
    lines = f"import jax\n\n\n{KERNEL}{program}".splitlines()
    project, site = find_site(folder, program, line=lines.index(f"    return {CALL}") + 1)
    cure(project, [site], Circumstances(is_old=is_old, depth=1))
    diff = render_diff({path: file.render() for path, file in project.files.items() if file.is_changed})
    added = [one[1:].strip() for one in diff.splitlines() if one[0] == "+" and one[:3] != "+++"]
    return added, [*project.also_changed], [*project.not_changed]


@pytest.mark.parametrize("cure", [declare, call_in_place])
@pytest.mark.parametrize("is_old", [False, True])
def test_the_call_of_the_other_branch_is_changed_in_the_same_way(cure: Apply, is_old: bool, tmp_path: Path) -> None:
    added, changed, left = cure_second(tmp_path, f"return {WIDE}", cure=cure, is_old=is_old)
    assert added.count("return result, y") == 2
    calls = "\n".join(added)
    assert calls.count("input_output_aliases={0: 1}" if cure is declare else "written=0") == 2
    assert "num_warps=8" in calls
    assert added[-1] == "t, h = f(h, s)"
    assert (changed, left) == (["the call of `double_kernel` (mine.py:13)"], [])


def test_a_call_that_cannot_be_changed_refuses_the_cure(tmp_path: Path) -> None:
    with pytest.raises(CannotFixError, match=r"inside of a comprehension.*\(mine.py:13\)"):
        cure_second(tmp_path, f"return sum([{WIDE} for _ in s])")


@pytest.mark.parametrize(
    ("first", "before"),
    [
        (f"return {DECLARED}", ""),
        ("y_ref = jax.new_ref(y); return jt.triton_call(y_ref, kernel=double_kernel, out_shape=s, N=8)", ""),
        ("return wide(y, s)", f"def wide(y, s):\n    return {DECLARED}\n\n\n"),
    ],
)
def test_a_call_that_declares_its_write_stays(first: str, before: str, tmp_path: Path) -> None:
    added, changed, left = cure_second(tmp_path, first, before=before)
    assert added[-1] == "t, h = f(h, s)"
    assert (changed, left) == ([], [])


@pytest.mark.parametrize(
    ("first", "before", "place"),
    [
        (f"return {WIDE.replace('double_kernel', 'tiled_kernel')}", "", "`tiled_kernel` that gets `y` (mine.py:13)"),
        (
            "return wide(y, s)",
            f"def wide(y, s):\n    return {WIDE.replace('out_shape', 'out_type')}\n\n\n",
            "`double_kernel` that gets `y` (mine.py:12)",
        ),
    ],
)
def test_a_call_that_may_overwrite_the_array_is_named(first: str, before: str, place: str, tmp_path: Path) -> None:
    _, changed, left = cure_second(tmp_path, first, before=before)
    assert (changed, left) == ([], [f"the call of {place}"])


@pytest.mark.parametrize(
    ("store", "is_named"),
    [
        ("tl.store(sum_ptr, tl.sum(x))", False),
        ("tl.store(x_ptr, x)", True),
        ("tl.store(at, x)", True),
        ("tl.store(value=x, pointer=at)", True),
        ("tl.atomic_add(x_ptr, x)", True),
        ("update(x_ptr)", True),
        ("helpers.update(x_ptr)", True),
        ("tl.store(sum_ptr, tl.math.exp(x).to(tl.float32))", False),
    ],
)
def test_a_kernel_that_only_reads_the_array_is_not_named(store: str, is_named: bool, tmp_path: Path) -> None:
    body = f"    at: tl.tensor = x_ptr + 1\n    x = tl.load(at)\n    {store}\n"
    other = f"@triton.jit\ndef tiled_kernel(x_ptr, sum_ptr):\n{body}\n\n"
    first = f"return {WIDE.replace('double_kernel', 'tiled_kernel')}"
    assert bool(cure_second(tmp_path, first, before=other)[2]) == is_named


def test_two_calls_that_findings_name_are_returned_by_one_change(tmp_path: Path) -> None:
    program = f"def f(y, s, big=False):\n    if big:\n        return {WIDE}\n    return {CALL}\n\n\n{CALLER}"
    project, first = find_site(tmp_path, program)
    (other,) = list_calls_beside(first)
    second = replace(first, call=other, written=(replace(first.written[0], argument=other.args[0]),))
    declare(project, [first, second], Circumstances(is_old=False, depth=1))
    assert project.files[first.file.path].render().count(b"return result, y") == 2
    assert not project.also_changed
