"""The answer says what changes for those of whom the diff shows nothing: callers that lose a write, functions beside the
changed one, other launches of the kernel. Nothing is compiled.
"""

from pathlib import Path

import pytest

from ligerdiag.fix.call_site import Project
from ligerdiag.fix.declared_aliases import Circumstances, declare
from ligerdiag.fix.results.caller_remarks import describe_unseen_writes
from ligerdiag.fix.results.steps_by_hand import describe_step
from ligerdiag.model.findings import CallPlace, SourceLine
from tests.fix.test_callers import F
from tests.fix.test_source_changes import SHORT, find_site
from tests.fix.test_uses import OPS, G

BLOCK = """\
class Block:
    def run(self, h, s):
        self.y = h + 1
        t = f(self.y, s)
        return t + self.y
"""


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def declare_in(folder: Path, program: str, *, is_old: bool = False) -> Project:
    project, site = find_site(folder, program)
    declare(project, [site], Circumstances(is_old=is_old, depth=1))
    return project


@pytest.mark.parametrize(
    ("caller", "clause"),
    [
        ("def e(p, s):\n    return f(p, s)[0]\n", "no longer sees `p` overwritten"),
        ("def e(p, s):\n    return [f(p['a'], s) for _ in s]\n", "no longer sees `p['a']` overwritten"),
        (
            "def e(p, s):\n    return [f(p[i], s) for i in s]\n",
            "no longer sees `p[i]` overwritten, unless `p` is an array",
        ),
        ("def e(p, s):\n    return f(p * 2, s)\n", ""),
        ("def e(p, s):\n    t = f(p, s)\n    return t + p\n", ""),
    ],
)
def test_a_caller_that_drops_the_new_contents_is_named(caller: str, clause: str, tmp_path: Path) -> None:
    project = declare_in(tmp_path, f"{F}{G}{caller}")
    places = [one.place for one in project.changed_callers]
    assert places[0] == "`g` (mine.py:16)"
    assert [one.partition(":")[0] for one in places] == ["`g` (mine.py", "`e` (mine.py"]
    assert [one.partition(") ")[2] for one in describe_unseen_writes(project.changed_callers)] == (
        [clause] * bool(clause)
    )


@pytest.mark.parametrize(
    ("stored", "call", "slot"),
    [
        (f"{OPS}ops = Ops(f, act=g)", "other.norm(h, s)", "Ops.norm"),
        ('table = {"f": f, "g": g}', 'table["f"](h, s)', 'table["f"]'),
    ],
)
def test_the_place_of_a_function_that_returns_more_is_named(stored: str, call: str, slot: str, tmp_path: Path) -> None:
    project = declare_in(tmp_path, f"{F}{G}{stored}\n\n\ndef e(h, s, other):\n    t = {call}\n    return t + h\n")
    assert [*project.remarks] == [f"every function in `{slot}` has to return the new contents of `y` as well now"]


def test_the_users_of_a_function_that_stays_are_named(tmp_path: Path) -> None:
    """`d` passes a value of its own, which nobody else has."""
    others = "def e(p, s):\n    return f(p, s)\n\n\ndef d(p, s):\n    return f(p * 2, s)\n"
    project = declare_in(tmp_path, f"{F}{G}table = [f]\n\n\n{others}")
    assert [*project.remarks] == [
        "`f` leaves `y` unchanged now, unlike `f_in_place`, so that its other users no longer see it overwritten: "
        "`f` (mine.py:20) and `f(p, s)` (mine.py:24)"
    ]
    assert set(project.list_unseen()) <= set(project.kept_uses)


def test_a_method_that_jax_may_trace_is_named(tmp_path: Path) -> None:
    assert not declare_in(tmp_path, f"{F}{BLOCK}").remarks
    (tmp_path / "other.py").write_text("import jax\n\n\ndef e(b):\n    return jax.jit(b.run)\n", encoding="utf-8")
    (remark,) = declare_in(tmp_path, f"{F}{BLOCK}").remarks
    assert remark.startswith("`Block.run` assigns to `self.y`, and `jax.jit(b.run)` (other.py:5) may trace it: ")


def test_other_launches_of_a_kernel_with_a_new_parameter_are_named(tmp_path: Path) -> None:
    (alone,) = declare_in(tmp_path, F, is_old=True).remarks
    start = "`double_kernel` has the new parameter `spare_ptr` for the new contents of `x_ptr`; "
    assert alone == f"{start}no other launch of it is found"
    text = f"import jax_triton as jt\nfrom mine import double_kernel\n\n\ndef e(y, s):\n    return {SHORT}\n"
    (tmp_path / "other.py").write_text(text, encoding="utf-8")
    assert [*declare_in(tmp_path, F, is_old=True).remarks] == [f"{start}also launched at other.py:6"]


@pytest.mark.parametrize(
    ("call", "step"),
    [
        ("t = TABLE[k](h, s)", "write `t, h = TABLE[k](h, s)`"),
        ("t = TABLE[k](y=h, s=s)", "write `t, h = TABLE[k](y=h, s=s)`"),
        ("t = TABLE[k](h, s) + 1", "use it after `TABLE[k](h, s)`"),
        ("t = f(h, s)", ""),
        ("h, t = jax.lax.scan(f, h, s)", ""),
        ("t = run(f, h, s)", ""),
    ],
)
def test_the_step_by_hand_names_the_call(call: str, step: str, tmp_path: Path) -> None:
    project, site = find_site(tmp_path, f'{F}TABLE = {{"f": f}}\n\n\ndef e(h, s, k):\n    {call}\n    return t + h\n')
    lines = [SourceLine(file=str(tmp_path / "mine.py"), line=one) for one in (site.file.get_lines(site.call)[0], 19)]
    place = CallPlace(line=lines[0], callers=(lines[1],), written=(0,), operands=1)
    rest = "(mine.py:19); every function that this call may reach has to return as much"
    assert describe_step(project, [place]) == (f"return `y` from `f` as well, and {step} {rest}" if step else "")
