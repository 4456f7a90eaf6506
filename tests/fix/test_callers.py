"""Readers of the overwritten array in functions that the case does not run: they get the new contents, or the cure is
refused with their place. Nothing is compiled.

In each program `f` calls a kernel that overwrites `y`. The author of the hidden write means every name of that array to
see the new contents.
"""

from pathlib import Path

import pytest

from ligerdiag.fix.declared_aliases import Circumstances, declare
from ligerdiag.fix.readers.callers import UnreachedCallerError
from ligerdiag.fix.source_file import CannotFixError
from tests.fix.test_source_changes import SHORT, list_changes


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


F = f"def f(y, s):\n    return {SHORT}\n\n\n"
FIRST = 14
"""Line of the first caller."""


def change(folder: Path, program: str, depth: int) -> list[str]:
    """Returns the lines that `declare` adds, apart from those of the call itself."""
    changes = list_changes(folder, declare, program, Circumstances(is_old=False, depth=depth))
    return [one[1:].strip() for one in changes if one.startswith("+") and "jt." not in one and "y, kernel" not in one][
        1:
    ]


def indent(*lines: str) -> str:
    return "".join(f"    {one}\n" for one in lines)


@pytest.mark.parametrize(
    ("body", "added"),
    [
        (["t = f(h, s)", "return t + h"], ["t, h = f(h, s)"]),
        (["a, b = f(h, s)", "return a + h"], ["(a, b), h = f(h, s)"]),
        (["(a,) = f(h, s)", "return a + h"], ["(a,), h = f(h, s)"]),
        (["saved = h", "t = f(h, s)", "return t + saved"], ["t, h = f(h, s)", "saved = h"]),
        (["k = h * 2", "u = k", "t = f(u, s)", "return t + k"], ["t, u = f(u, s)", "k = u"]),
        (["saved = h", "h = f(h, s)", "return h + saved"], ["h, new_h = f(h, s)", "saved = new_h"]),
        (["saved, w = h, s", "t = f(h, s)", "return t + w"], []),
        (["for i in range(3):", "    t = f(h, s)", "return t"], ["t, h = f(h, s)"]),
        (["t = f(h, s)", "h = t + 1", "return h"], []),
        (["return [f(one, s) for one in s]"], []),
        (["return (lambda z: f(z, s))(1)"], []),
        (["f(h, s)", "return h"], ["_, h = f(h, s)"]),
        (["if (f(h, s) > 0).all():", "    return s", "return 0"], []),
        (["t = f(h * 2, s)", "return t + h"], []),
        (["sums = s.at[0].add(h)", "t = f(h, s)", "return t + sums"], []),
        (["z = h[0]", "t = f(z, s)", "return t + h[1]"], []),
        (["z = layer(h)", "t = f(z, s)", "return t + h"], []),
    ],
)
def test_a_caller_that_reads_the_array_gets_the_new_contents(body: list[str], added: list[str], tmp_path: Path) -> None:
    layer = "def layer(z):\n    z = z + 1\n    return z\n"
    program = f"{F}def g(h, s):\n{indent(*body)}\n\n{layer}"
    if not added:  # nobody reads the array, so that nothing but the call changes
        assert change(tmp_path, program, 0) == change(tmp_path, program, 1) == ["return result"]
        return
    with pytest.raises(UnreachedCallerError, match="would keep the old contents"):
        change(tmp_path, program, 0)
    assert [one for one in change(tmp_path, program, 1) if one != "return result, y"] == added


@pytest.mark.parametrize(
    ("body", "text", "line"),
    [
        (["pair = (h, s)", "t = f(h, s)", "return t + pair[0]"], "pair", 1),
        (["held = {'h': h}", "t = f(h, s)", "return t + held['h']"], "held", 1),
        (["self.h = h", "return f(h, s)"], "self.h", 1),
        (["h = self.h", "return f(h, s)"], "self.h", 1),
        (["history = []", "history.append(h)", "t = f(h, s)", "return history"], "history", 2),
        (["def late(z=h):", "    return z", "t = f(h, s)", "return late()"], "late", 1),
        (["one, other = h", "t = f(one, s)", "return t, h"], "h", 1),
        (["for one in h:", "    t = f(one, s)", "return h"], "h", 1),
        (["return [f(one, s) + one for one in h]"], "one", 1),
        (["t = [f(one, s) for one in h]", "return t, h"], "h", 1),
        (["if s:", "    saved = h", "t = f(h, s)", "return saved"], "saved", 2),
        (["saved = h if s else s", "t = f(h, s)", "return saved"], "saved", 1),
        (["h = jnp.asarray(k)", "t = f(h, s)", "return t + k"], "k", 1),
        (["kept = same(h)", "t = f(h, s)", "return t + kept"], "kept", 1),
        (["h = same(k)", "t = f(h, s)", "return t + k"], "k", 1),
        (["state = State(h=h)", "t = f(h, s)", "return state"], "state", 1),
        (["def inner():", "    return f(h, s)", "return inner() + h"], "h", 3),
        (["t = f(GLOBAL, s)", "return GLOBAL"], "GLOBAL", 2),
    ],
)
def test_a_name_that_cannot_be_assigned_refuses_the_cure(body: list[str], text: str, line: int, tmp_path: Path) -> None:
    program = f"{F}def g(self, h, s, k=0):\n{indent(*body)}\n\ndef same(z):\n    return z\n"
    for depth in (0, 1, 2):
        with pytest.raises(CannotFixError) as error:
            change(tmp_path, program, depth)
        assert str(error.value) == (
            f"`{text}` would keep the old contents of the array that `f` overwrites (mine.py:{FIRST + 1 + line})"
        )


def test_an_argument_that_got_a_new_value_is_another_array(tmp_path: Path) -> None:
    """The caller of `g` keeps its array if `h` is another one when the kernel runs, and loses it if `h` is not."""
    other = f"{F}def g(h, s):\n{indent('h = h + 1', 'return f(h, s)')}\n\ndef e(p, s):\n    return g(p, s) + p\n"
    assert change(tmp_path, other, 0) == ["return result"]
    same = (
        f"{F}def g(h, s):\n{indent('o = h', 'h = h + 1', 'return f(o, s)')}\n\ndef e(p, s):\n    return g(p, s) + p\n"
    )
    with pytest.raises(UnreachedCallerError, match=r"`p` would keep the old contents .* \(mine.py:22\)"):
        change(tmp_path, same, 0)
    with pytest.raises(CannotFixError, match="is assigned again"):
        change(tmp_path, same, 2)


SCAN = "def e(p, s):\n    return jax.lax.scan(g, (p, s), s)\n"


@pytest.mark.parametrize(
    ("body", "added"),
    [
        (["h, n = carry", "h = h + y", "n = n + f(h, y)", "return (h, n), y"], "result, h = f(h, y)"),
        (["h, n = carry", "n = f(h, n)", "return (h, n), h.sum()"], "n, h = f(h, n)"),
        (["(h, k), n = carry", "k = k + f(h, n)", "return ((h, k), n), y"], "result, h = f(h, n)"),
        (["state, n = carry", "h, k = state", "t = f(h, n)", "return ((h, k), n), t"], "t, h = f(h, n)"),
        (["h, n = carry", "view = h", "t = f(h, n)", "return (h, n), view"], "view = h"),
    ],
)
def test_the_parts_of_a_carry_are_different_arrays(body: list[str], added: str, tmp_path: Path) -> None:
    program = f"{F}def g(carry, y):\n{indent(*body)}\n\n{SCAN}"
    assert added in change(tmp_path, program, 1)


@pytest.mark.parametrize(
    ("body", "text", "line", "is_scanned"),
    [
        (["h, n = carry", "t = f(h, n)", "return carry, t"], "carry", 1, True),
        (["h, n = carry", "k, n = carry", "t = f(h, n)", "return (k, n), t"], "k", 2, True),
        (["h, n = carry", "t = f(h, y)", "return n, t"], "n", 1, False),  # a caller may pass one array twice
        (["h, n = carry", "pair = (h, n)", "t = f(h, y)", "return pair, t"], "pair", 2, True),
        (["k = carry", "h = k", "t = y and (h := y)", "t = f(h, y)", "return k, t"], "k", 2, True),
        (["saved, h = y, carry", "h = jnp.asarray(h)", "t = f(h, y)", "return carry, t"], "carry", 1, True),
    ],
)
def test_another_name_of_a_part_of_a_carry_refuses_the_cure(
    body: list[str], text: str, line: int, is_scanned: bool, tmp_path: Path
) -> None:
    program = f"{F}def g(carry, y):\n{indent(*body)}\n\n{SCAN if is_scanned else ''}"
    with pytest.raises(
        CannotFixError, match=rf"`{text}` would keep the old contents .* \(mine.py:{FIRST + 1 + line}\)"
    ):
        change(tmp_path, program, 1)


def test_only_callers_that_read_the_array_are_handed_it(tmp_path: Path) -> None:
    program = (
        f"{F}def g(h, s):\n    return f(h, s)\n\n\ndef e(p, s):\n    return g(p, s) + p\n\n\n"
        "def d(q, s):\n    return {k: g(q, s) for k in s}\n"
    )
    for depth in (0, 1):
        with pytest.raises(
            UnreachedCallerError, match=r"`p` would keep the old contents .* `g` overwrites \(mine.py:20\)"
        ):
            change(tmp_path, program, depth)
    assert change(tmp_path, program, 2) == [
        "return result, y",
        "result, h = f(h, s)",
        "return result, h",
        "result, p = g(p, s)",
        "return result + p",
        "return {k: g(q, s)[0] for k in s}",
    ]


@pytest.mark.parametrize(
    ("decorator", "is_kept"),
    [
        ("jax.jit", True),
        ("partial(jax.jit, static_argnums=1)", True),
        ("jax.checkpoint", True),
        ("partial(jax.jit, out_shardings=s)", False),
        ("jax.custom_vjp", False),
    ],
)
def test_a_decorator_may_give_the_results_a_meaning(decorator: str, is_kept: bool, tmp_path: Path) -> None:
    program = f"@{decorator}\n{F}def g(h, s):\n    t = f(h, s)\n    return t + h\n"
    if is_kept:
        assert change(tmp_path, program, 1)[-1] == "t, h = f(h, s)"
    else:
        with pytest.raises(CannotFixError, match="a decorator may depend on its results"):
            change(tmp_path, program, 1)


@pytest.mark.parametrize(
    ("importing", "call"),
    [
        ("from mine import f as fused", "fused(h, s)"),
        ("import mine", "mine.f(h, s)"),
        ("import mine as m", "m.f(s=s, y=h)"),
        ("from mine import *", "f(h, s)"),
        ("from package import f", "f(h, s)"),
        ("import jax\nfrom mine import f\n\nfast = jax.jit(f)", "fast(h, s)"),
    ],
)
def test_a_caller_is_found_by_any_way_of_importing(importing: str, call: str, tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("from mine import f\n", encoding="utf-8")
    lines = f"{importing}\n\n\ndef g(h, s):\n    t = {call}\n    return t + h\n"
    (tmp_path / "other.py").write_text(lines, encoding="utf-8")
    assert change(tmp_path, F, 1)[-1] == f"t, h = {call}"


def test_a_function_of_the_same_name_is_no_caller(tmp_path: Path) -> None:
    other = "class A:\n    def f(self, h, s):\n        return h\n\n\n"
    use = "def g(a, h):\n    t = a.f(h, mine)\n    return t + h\n"
    (tmp_path / "other.py").write_text(f"import mine\n\n\n{other}{use}", encoding="utf-8")
    assert change(tmp_path, F, 0) == ["return result"]


def test_a_method_is_called_on_what_its_class_made(tmp_path: Path) -> None:
    body = f"class Norm:\n    def __call__(self, y, s):\n        return {SHORT}\n\n\n"
    unit = "class Unit:\n    def __init__(self):\n        self.norm = Norm()\n\n    def run(self, h, s):\n"
    program = f"{body}{unit}        t = self.norm(h, s)\n        return t + h\n"
    with pytest.raises(UnreachedCallerError, match=r"that `Norm.__call__` overwrites \(mine.py:21\)"):
        change(tmp_path, program, 0)
    assert change(tmp_path, program, 1)[-1] == "t, h = self.norm(h, s)"


def test_results_of_a_tuple_stay_a_tuple(tmp_path: Path) -> None:
    two = f"def f(y, s):\n    return {SHORT}, s\n\n\n"
    reads = "def g(h, s):\n    both = f(h, s)\n    return both, h\n\n\n"
    program = f"{two}{reads}def e(p, s):\n    both = f(p, s)\n    return both\n"
    assert change(tmp_path, program, 1)[1:] == ["*both, h = f(h, s)", "both = tuple(both)", "both = f(p, s)[:-1]"]


def test_a_read_in_front_of_the_call_would_move_behind_it(tmp_path: Path) -> None:
    with pytest.raises(CannotFixError, match=r"`h` is read before the call, in the same statement"):
        change(tmp_path, f"{F}def g(h, s):\n    return h.sum() + f(h, s)\n", 1)


def test_a_function_that_returns_more_says_so_in_its_annotation(tmp_path: Path) -> None:
    annotated = F.replace("def f(y, s):", "def f(y, s) -> jax.Array:")
    program = f"from __future__ import annotations\n{annotated}def g(h, s):\n    t = f(h, s)\n    return t + h\n"
    changes = list_changes(tmp_path, declare, program, Circumstances(is_old=False, depth=1))
    assert [one for one in changes if one.startswith("+def ")] == ["+def f(y, s) -> tuple[jax.Array, jax.Array]:"]
