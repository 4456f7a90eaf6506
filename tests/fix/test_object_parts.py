"""The new contents go back to where the operand came from: an attribute, a dict's key, an element of a list. Nothing is
compiled.

In each program `f` calls a kernel that overwrites `y`, and a caller passes it a part of an object.
"""

from pathlib import Path

import pytest

from ligerdiag.fix.readers.callers import UnreachedCallerError
from ligerdiag.fix.source_file import CannotFixError
from tests.fix.test_callers import F, change, indent
from tests.fix.test_source_changes import SHORT


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


STATE = "class S(NamedTuple):\n    y: Array\n    n: int\n\n\n"
FROZEN = f"@dataclass(frozen=True)\n{STATE.replace('(NamedTuple)', '')}"
INIT = "    def __init__(self, p: dict):\n        self.p = p\n\n"


def write_method(*lines: str, before: str = "") -> str:
    return f"{F}class A:\n{before}    def g(self, h, k, s):\n" + "".join(f"        {one}\n" for one in lines)


def write_function(*lines: str, head: str = "def g(h, s):") -> str:
    return f"{F}{head}\n{indent(*lines)}"


@pytest.mark.parametrize(
    ("program", "added"),
    [
        (write_method("t = f(self.r, s)", "return t"), ["t, self.r = f(self.r, s)"]),
        (write_method("return f(self.r, s) * 2"), ["result, self.r = f(self.r, s)", "return result * 2"]),
        (write_method("t = f(self.p[k], s)", "return t", before=INIT), ["t, self.p[k] = f(self.p[k], s)"]),
        (
            write_method("for k in self.p.keys():", "    t = f(self.p[k], s)"),
            ["t, self.p[k] = f(self.p[k], s)"],
        ),
        (
            write_function("for k in s:", "    n = n + f(h[k], s[k])", "return h, n"),
            ["result, h[k] = f(h[k], s[k])", "n = n + result"],
        ),
        (write_method("h = self.h", "t = f(h, s)", "return t"), ["t, h = f(h, s)", "self.h = h"]),
        (write_method("self.h = h", "t = f(h, s)", "return t"), ["t, h = f(h, s)", "self.h = h"]),
        (
            write_method("saved = self.h", "t = f(self.h, s)", "return t + saved"),
            ["t, self.h = f(self.h, s)", "saved = self.h"],
        ),
        (
            write_function("state = {'r': h, 'q': s}", "t = f(state['r'], s)", "return t + state['r'] + s"),
            ["t, state['r'] = f(state['r'], s)"],
        ),
        (
            write_function("state = {'r': h}", "t = f(state['r'], s)", "return t + state['r'] + h"),
            ["t, state['r'] = f(state['r'], s)", "h = state['r']"],
        ),
        (
            write_function("rows = [h * 2, s]", "t = f(rows[0], s)", "return t + rows[0]"),
            ["t, rows[0] = f(rows[0], s)"],
        ),
        (
            write_function("state = S(h, 1)", "t = f(state.y, s)", "return t + state.y") + STATE,
            ["t, new_y = f(state.y, s)", "state = state._replace(y=new_y)"],
        ),
        (
            write_function(
                "c = c._replace(n=s)", "t = f(c.y, s)", "return c._replace(n=c.y), t", head="def g(c: S, s):"
            )
            + STATE,
            ["t, new_y = f(c.y, s)", "c = c._replace(y=new_y)"],
        ),
        (
            "from dataclasses import dataclass, replace\n\n"
            + write_function("t = f(state.y, s)", "return state, t", head="def g(state: S, s):")
            + FROZEN,
            ["t, new_y = f(state.y, s)", "state = replace(state, y=new_y)"],
        ),
    ],
)
def test_a_part_gets_the_new_contents(program: str, added: list[str], tmp_path: Path) -> None:
    assert [one for one in change(tmp_path, program, 1) if one != "return result, y"] == added


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (
            write_function("pair = (h, s)", "t = f(pair[0], s)", "return t + pair[0]"),
            r"`pair\[0\]` would .*: `pair` is a tuple",
        ),
        (
            write_function("t = f(k.w, s)", "return t + k.w", head="def g(k, s):"),
            "the source does not show whether `k.w` can be",
        ),
        (
            write_function("state = S(h, 1)", "old = state", "t = f(state.y, s)", "return old, state") + STATE,
            "`S` is a NamedTuple, whose fields cannot be assigned",
        ),
        (
            write_method("t = f(self.r, s)", "return t").replace("class A", "class A(eqx.Module)"),
            "the source does not show whether an object of `Module` can be changed",
        ),
        (
            write_method("t = f(self.r, s)", "return t", before="    @partial(jax.jit, static_argnums=0)\n"),
            "JAX traces the method, and the object would keep a tracer",
        ),
        (write_method("return self.h + f(self.h, s)"), "`self.h` is read before the call"),
        (
            write_function("q = {'r': h}", "q = f(q['r'], s) + q['r']", "return q"),
            r"`q\['r'\]` would keep the old contents",
        ),
        (
            write_method("if k:", "    saved = self.h", "t = f(self.h, s)", "return t + saved"),
            "`saved` would keep the old contents",
        ),
    ],
)
def test_a_part_that_cannot_be_assigned_refuses_the_cure(program: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(CannotFixError, match=reason):
        change(tmp_path, program, 1)


def test_a_caller_s_dict_is_updated_unless_jax_copies_it(tmp_path: Path) -> None:
    reader = "\n\ndef e(p, s):\n    state = {'r': p * 2}\n    t = g(state, s)\n    return t + state['r']\n"
    program = write_function("t = f(state['r'], s)", "return t", head="def g(state, s):") + reader
    assert change(tmp_path, program, 1)[-1] == "t, state['r'] = f(state['r'], s)"
    with pytest.raises(UnreachedCallerError, match="`state` would keep the old contents"):
        change(tmp_path, program.replace("def g(", "@jax.jit\ndef g("), 1)
    with pytest.raises(UnreachedCallerError, match="`state` would keep the old contents"):
        change(tmp_path, program.replace("t = g(", "t = jax.jit(g)("), 1)


def test_the_kernel_s_own_operand_may_be_a_part(tmp_path: Path) -> None:
    call = SHORT.replace("(y,", "(self.y,")
    program = f"class A:\n    def g(self, s):\n        t = {call}\n        return t + self.y\n"
    assert "out_shape=(s, self.y)," in change(tmp_path, program, 0)
