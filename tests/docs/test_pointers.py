"""Every file, module and heading that a page, a docstring or a comment refers to exists."""

import pytest

from tools.pointers import Dangling, check_text, find_dangling
from tools.texts import Kind, Text

GONE: frozenset[str] = frozenset()
"""Pointers in docstrings of ligerdiag/ whose file or module is gone. Take one off when it is fixed; add none."""


@pytest.fixture(scope="module")
def found() -> tuple[Dangling, ...]:
    return tuple(find_dangling())


def test_every_pointer_has_a_target(found: tuple[Dangling, ...]) -> None:
    dangling = [one for one in found if one.pointer not in GONE or not one.path.startswith("ligerdiag/")]
    assert not dangling, "\n".join(map(str, dangling))


def test_the_list_of_known_dangling_pointers_only_shrinks(found: tuple[Dangling, ...]) -> None:
    left = {one.pointer for one in found if one.path.startswith("ligerdiag/")}
    assert left >= GONE, f"mended, take off GONE: {', '.join(sorted(GONE - left))}"


@pytest.mark.parametrize(
    "words",
    [
        "[a page](gone.md)",
        "[a heading](README.md#no-such-heading)",
        "see docs/gone.md",
        "(`hlo/gone.py`)",
        "`gone_module.py` decides",
        "`ligerdiag.hlo.gone`",
        "ligerdiag.hlo.dataflow.no_such_function",
        "`hlo.gone` has the rules",
    ],
)
def test_a_dangling_pointer_is_found(words: str) -> None:
    assert [one.line for one in check_text(Text(path="README.md", line=1, kind=Kind.PAGE, text=f"\n{words}"))] == [2]


@pytest.mark.parametrize(
    "words",
    [
        "[a page](docs/README.md)",
        "[the web](https://example.org/gone.md)",
        "`hlo/opcodes.py`, docs/security.md",
        "`ligerdiag.hlo.opcodes`, `hlo.opcodes`, `ligerdiag.check`",
        "`jax.grad`, `numpy.float32`, `pickle.py`, `mine.py`",
    ],
)
def test_a_pointer_with_a_target_is_not_reported(words: str) -> None:
    assert list(check_text(Text(path="README.md", line=1, kind=Kind.PAGE, text=words))) == []


def test_a_docstring_may_not_refer_to_a_name_that_does_not_exist() -> None:
    text = Text(
        path="tools/pointers.py", line=1, kind=Kind.DOCSTRING, text="See `no_such_name_anywhere`, see `Dangling`."
    )
    assert [one.pointer for one in check_text(text)] == ["no_such_name_anywhere"]
