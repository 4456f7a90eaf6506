"""Every use of a function that returns more is a call that changes, or it refuses the cure, or the answer lists it.
Nothing is compiled.

`g` reads `h` after `f` has overwritten it, so that `f` has to return `h` as well, and its other users get a pair.
"""

from pathlib import Path

import pytest

from ligerdiag.fix.declared_aliases import Circumstances, declare
from ligerdiag.fix.readers.callers import UnreachedCallerError
from ligerdiag.fix.source_file import CannotFixError
from tests.fix.test_callers import F, change, indent
from tests.fix.test_source_changes import SHORT, find_site

G = "def g(h, s):\n    t = f(h, s)\n    return t + h\n\n\n"
METHOD = f"class Base:\n    def run(self, y, s):\n        return {SHORT}\n\n\n"
READER = "def g(h, s):\n    t = Base().run(h, s)\n    return t + h\n\n\n"
NORM = f"class Norm:\n    def __call__(self, y, s):\n        return {SHORT}\n\n\nnorm = Norm()\n\n\n"
OPS = "class Ops(NamedTuple):\n    norm: object\n    act: object\n\n\n"
READS_NORM = "def g(h, s):\n    t = norm(h, s)\n    return t + h\n\n\n"


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def list_unseen(folder: Path, program: str, depth: int = 1) -> list[str]:
    """Returns the possible callers that `declare` does not change."""
    project, site = find_site(folder, program)
    declare(project, [site], Circumstances(is_old=False, depth=depth))
    return [*project.list_unseen()]


def list_kept(folder: Path, program: str) -> list[str]:
    """Returns the lines that name the new function, apart from its `def`."""
    return [one for one in change(folder, program, 1) if "in_place" in one and not one.startswith("def ")]


@pytest.mark.parametrize(
    "use",
    [
        'table = {"f": f}\n\n\ndef e(k, p):\n    return table[k](p)',
        'for name, one in {"f": f}.items(): print(name)',
        "table = [f]",
        "table = (f, 1)",
        "a, b = f, 1",
        "def e(p, k=f):\n    return k(p)",
        "def e(): return f",
        "holder.f = f",
        'holder["f"] = f',
        "class A:\n    run = f",
        "@f\ndef e(p): return p",
        "def e(ps): return map(f, ps)",
        "def e(ps): return jax.vmap(f, in_axes=1)(ps)",
        "def e(ps): return jax.grad(f)(ps)",
        "def e(ps): return jax.lax.scan(f, 0, ps)",
        "def e(ps): return partial(f, ps)()",
        "def e(ps): return partial(f, y=ps)()",
        "def e(ps): return jax.jit(f).lower(ps)",
        "fast = jax.jit(f)\ntable = [fast]",
    ],
)
def test_a_function_stays_for_its_uses_as_a_value(use: str, tmp_path: Path) -> None:
    assert list_kept(tmp_path, f"{F}{G}{use}\n") == [
        '"""Like `f_in_place`, but leaves `y` unchanged."""',
        "return f_in_place(y, s)[0]",
        "t, h = f_in_place(h, s)",
    ]
    unseen = list_unseen(tmp_path, f"{F}{G}{use}\n")
    assert len(unseen) == ("scan" not in use)
    assert all("(mine.py:" in one for one in unseen)


def test_a_reader_that_may_call_another_function_refuses_the_cure(tmp_path: Path) -> None:
    """`fast` cannot both return more, for `e`, and what it returned before, for those who get it from the table."""
    alias = "fast = jax.jit(f)\ntable = [fast]\n\n\n"
    with pytest.raises(CannotFixError, match=r"`f` would have to return more, .* passed as a value \(mine.py:21\)"):
        change(tmp_path, f"{F}{G}{alias}def e(h, s):\n    t = fast(h, s)\n    return t + h\n", 1)
    table = alias.replace("[fast]", "[f]") + "def e(h, s):\n    t = fast(h, s)\n    return t + h\n"
    assert change(tmp_path, f"{F}{G}{table}", 1)[-2:] == ["fast = jax.jit(f_in_place)", "t, h = fast(h, s)"]


def test_a_caller_further_up_waits_for_more_levels(tmp_path: Path) -> None:
    program = f"{F}table = [f]\n\n\ndef g(h, s):\n    t = f(h, s)\n    return t\n\n\n"
    program += "def e(p, s):\n    t = g(p, s)\n    return t + p\n"
    with pytest.raises(UnreachedCallerError, match="`p` would keep the old contents"):
        change(tmp_path, program, 1)
    assert change(tmp_path, program, 2)[-3:] == ["t, h = f_in_place(h, s)", "return t, h", "t, p = g(p, s)"]


def test_a_kept_function_of_another_module_is_imported_as_well(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("from mine import (\n    f as fused,\n)\n", encoding="utf-8")
    reader = "def {}(h, s):\n    t = {}(h, s)\n    return t + h\n\n\n"
    text = "import package\nimport mine as m\nfrom package import fused\n\n\n"
    text += "".join(map(reader.format, "bcd", ("package.fused", "m.f", "fused")))
    (tmp_path / "other.py").write_text(text, encoding="utf-8")
    assert list_kept(tmp_path, f"{F}table = [f]\n")[2:] == [
        "from package import fused, f_in_place",
        "t, h = package.f_in_place(h, s)",
        "t, h = m.f_in_place(h, s)",
        "t, h = f_in_place(h, s)",
        "f_in_place,",
    ]


@pytest.mark.parametrize(
    ("stored", "call"),
    [
        ('table = {"f": f, "g": g}', 'table["f"](h, s)'),
        ("table = dict(f=f, g=g)", "table['f'](h, s)"),
        (f"{OPS}ops = Ops(f, act=g)", "ops.norm(h, s)"),
        (f"@dataclass\n{OPS.replace('(NamedTuple)', '')}ops = Ops(act=g, norm=f)", "other.norm(h, s)"),
        ("class A:\n    def __init__(self, n, f):\n        self.norm = f\n\n\na = A(1, f)", "a.norm(h, s)"),
        ("fast = partial(f, s=1)", "fast(h)"),
        ("", "partial(jax.jit(f), s=1)(h)"),
        ("", "jax.vmap(f)(h, s)"),
    ],
)
def test_a_function_is_followed_through_what_stores_it(stored: str, call: str, tmp_path: Path) -> None:
    program = f"{F}{G}{stored}\n\n\ndef e(h, s, other):\n    t = {call}\n    return t + h\n"
    assert change(tmp_path, program, 1)[-2:] == ["t, h = f(h, s)", f"t, h = {call}"]


@pytest.mark.parametrize(
    "stored",
    [
        f"{OPS}ops = Ops(f, act=g)\nmore = Ops(norm=g, act=g)",
        f"{OPS}ops = Ops(f, act=g)._replace(norm=g)",
        f"{OPS}ops = Ops(*[f, g])\nops = Ops(f, act=g)",
        f"{OPS}ops = Ops(f, act=g)\n\n\nclass B:\n    norm: object",
        f"{OPS}ops = Ops(f, act=g)\nops.norm = g",
        'table = {"norm": f}\ntable["norm"] = g',
        'table = {"norm": f}\ntable = {"norm": g}',
    ],
)
def test_a_function_is_not_followed_where_another_one_may_be_stored(stored: str, tmp_path: Path) -> None:
    program = f"{F}{G}{stored}\n\n\ndef e(h, s, ops, table):\n    t = ops.norm(h, s)\n    return t + h\n"
    assert change(tmp_path, program, 1)[-1] == "t, h = f_in_place(h, s)"
    assert any(one.startswith("`f` (mine.py:") for one in list_unseen(tmp_path, program))


@pytest.mark.parametrize(
    ("files", "call"),
    [
        ({"between.py": "from mine import f as fused\n", "other.py": "from between import fused"}, "fused(h, s)"),
        (
            {"between.py": "import jax, mine\nfast = jax.jit(mine.f)\n", "other.py": "import between"},
            "between.fast(h, s)",
        ),
        (
            {"between.py": "from mine import f\nother = same = f\n", "other.py": "from between import same"},
            "same(h, s)",
        ),
        ({"other.py": "import package.mine"}, "package.mine.f(h, s)"),
        ({"other.py": "import package as p"}, "p.mine.f(h, s)"),
        ({"other.py": "try:\n    from mine import f\nexcept ImportError:\n    from .mine import f"}, "f(h, s)"),
    ],
)
def test_a_function_is_followed_from_name_to_name(files: dict[str, str], call: str, tmp_path: Path) -> None:
    for name, text in files.items():
        use = f"\n\n\ndef e(h, s):\n    t = {call}\n    return t + h\n" if name == "other.py" else ""
        (tmp_path / name).write_text(text + use, encoding="utf-8")
    assert f"t, h = {call}" in change(tmp_path, F, 1)


def test_a_kernel_with_another_name_is_called_with_one_more_pointer(tmp_path: Path) -> None:
    call = SHORT.replace("double_kernel", "twice")
    text = f"from mine import double_kernel as twice\n\n\ndef e(y, s):\n    t = {call}\n    return t\n"
    (tmp_path / "other.py").write_text(text, encoding="utf-8")
    project, site = find_site(tmp_path, F)
    declare(project, [site], Circumstances(is_old=True))
    assert b"input_output_aliases" in project.files[tmp_path / "other.py"].render()


def test_a_parameter_of_the_same_name_is_another_function(tmp_path: Path) -> None:
    assert "return f(p)" not in change(tmp_path, f"{F}{G}def e(f, p):\n    return f(p)\n", 1)
    local = "def e(p):\n    def f(q):\n        return q\n    return [f]\n"
    assert change(tmp_path, f"{F}{G}{local}", 1)[-1] == "t, h = f(h, s)"


def test_a_coroutine_is_not_changed(tmp_path: Path) -> None:
    with pytest.raises(CannotFixError, match="is a coroutine"):
        change(tmp_path, f"async {F}async def g(h, s):\n    t = await f(h, s)\n    return t + h\n", 1)


@pytest.mark.parametrize(
    "use",
    [
        "table = [norm]",
        "def e(x, k=norm): return k(x)",
        "class Unit:\n    def __init__(self):\n        self.norm = norm",
        "table = [Norm()]",
        "def e(): return Norm()",
    ],
)
def test_an_object_that_is_called_and_used_as_a_value_gets_one_more_method(use: str, tmp_path: Path) -> None:
    assert list_kept(tmp_path, f"{NORM}{READS_NORM}{use}\n") == [
        '"""Like `in_place`, but leaves `y` unchanged."""',
        "return self.in_place(y, s)[0]",
        "t, h = norm.in_place(h, s)",
    ]


def test_a_variable_of_another_function_is_no_object(tmp_path: Path) -> None:
    other = "def e(p):\n    norm = p + 1\n    return [norm]\n\n\ndef d(norm):\n    return [norm]\n"
    assert change(tmp_path, f"{NORM}{READS_NORM}{other}", 1)[-1] == "t, h = norm(h, s)"


def test_an_object_calls_itself(tmp_path: Path) -> None:
    run = "class Wide(Norm):\n    def run(self, h, s):\n        return self(h, s) * 2\n"
    assert change(tmp_path, f"{NORM}{READS_NORM}{run}", 1)[-1] == "return self(h, s)[0] * 2"
    mapped = run.replace("self(h, s)", "jax.vmap(self)(h, s)")
    assert change(tmp_path, f"{NORM}{READS_NORM}{mapped}", 1)[-1] == "return jax.vmap(self)(h, s)[0] * 2"


def test_an_object_of_another_module_is_called(tmp_path: Path) -> None:
    use = "def e(h, s):\n    t = fused(h, s)\n    return t + h\n"
    (tmp_path / "other.py").write_text(f"from mine import norm as fused\n\n\n{use}", encoding="utf-8")
    assert change(tmp_path, f"{NORM}{READS_NORM}", 1)[-1] == "t, h = fused(h, s)"


def test_a_method_that_is_overridden_is_not_changed(tmp_path: Path) -> None:
    """An object of either class may be behind `obj.run(x)`: both methods have to return the same."""
    child = "class Child(Base):\n    def run(self, y, s):\n        return super().run(y, s) * 2\n\n\n"
    with pytest.raises(CannotFixError, match=r"may have the `run` of another class, `Child` \(mine.py:21\)"):
        change(tmp_path, f"{METHOD}{READER}{child}", 1)
    above = METHOD.replace("class Base:", "class Base(Root):")
    (tmp_path / "root.py").write_text("class Root:\n    def run(self, y, s):\n        return y\n", encoding="utf-8")
    with pytest.raises(CannotFixError, match=r"may have the `run` of another class, `Root` \(root.py:1\)"):
        change(tmp_path, f"from root import Root\n{above}{READER}", 1)


def test_a_method_of_a_derived_class_is_called(tmp_path: Path) -> None:
    child = "from mine import Base as B\n\n\nclass Child(B):\n    def go(self, y, s):\n"
    child += indent("    r = super().run(y, s)", "    return r * 2").rstrip() + "\n"
    child += "\n\ndef e(p, s):\n    return Child().run(p, s)\n"
    (tmp_path / "other.py").write_text(child, encoding="utf-8")
    assert change(tmp_path, f"{METHOD}{READER}", 1)[-2:] == ["r, _ = super().run(y, s)", "return Child().run(p, s)[0]"]


def test_a_use_as_a_value_of_a_function_that_stays_is_listed(tmp_path: Path) -> None:
    """`f` need not return more, but who gets it from the table may read the old contents."""
    table = 'table = {"f": f}\n\n\ndef e(p, s, k):\n    return table[k](p, s) + p\n'
    rest = 'CASE = Case(name="f", function=f)\n\n\ndef d(p, s):\n    return jax.lax.scan(f, p, s)\n'
    assert list_unseen(tmp_path, f"{F}{table}{rest}") == ["`f` (mine.py:15)"]


def test_what_may_be_a_caller_is_listed(tmp_path: Path) -> None:
    use = "def e(obj, p, s):\n    return obj.run(p, s)\n\n\ndef d(obj, p):\n    return getattr(obj, 'run')(p)\n"
    more = "class Other:\n    def run(self, p): return self.run(p)\n\n\nother = Other()\nother.run(1)\n"
    (tmp_path / "other.py").write_text(f"import subprocess\n{use}{more}subprocess.run(1)\n", encoding="utf-8")
    assert list_unseen(tmp_path, f"{METHOD}{READER}") == ["other.py:7", "`obj.run` (other.py:3)"]
    (tmp_path / "other.py").write_text(f"# {chr(233)}\n", encoding="latin-1")
    assert list_unseen(tmp_path, f"{F}{G}") == ["other.py, which cannot be read as UTF-8 text"]


def test_a_call_that_the_change_reaches_is_not_listed(tmp_path: Path) -> None:
    """Both methods are called `run`, and both return more: the caller of one is no unknown caller of the other."""
    outer = "@dataclass\nclass Outer:\n    inner: Base\n\n    def run(self, h, s):\n"
    outer += "        t = self.inner.run(h, s)\n        return t\n\n\n"
    reader = "def g(outer: Outer, h, s):\n    t = outer.run(h, s)\n    return t + h\n\n\n"
    program = f"{METHOD}{outer}{reader}"
    assert list_unseen(tmp_path, program, 2) == []
    assert list_unseen(tmp_path, f"{program}def e(some, p, s):\n    return some.run(p, s)\n", 2) == [
        "`some.run` (mine.py:31)"
    ]
