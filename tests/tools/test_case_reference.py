"""The page on the fields of a case file: its examples are code that runs, and each sets the field that it is about."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from ligerdiag.model.case import Arg, Case, Draw
from tools.case_reference import EXAMPLES, read_fields, render_page

PAGE = Path(__file__).parents[2] / "docs" / "case-fields.md"


def test_the_page_is_that_of_the_code() -> None:
    assert PAGE.read_text() == render_page(), "run `make docs`"


@pytest.mark.parametrize(("described", "name"), EXAMPLES, ids=lambda one: getattr(one, "__name__", one))
def test_each_example_sets_its_field(described: type[Any], name: str) -> None:
    for code in EXAMPLES[described, name]:
        made = eval(code, {"Arg": Arg, "Draw": Draw, "jax": jax, "jnp": jnp})  # ours
        assert isinstance(made, described)
        assert f"{name}=" in code
        assert getattr(made, name) != getattr(Draw() if described is Draw else Arg(shape=(1,)), name), code


def test_each_field_has_a_text_and_those_of_an_argument_an_example() -> None:
    for described in (Arg, Draw, Case):
        assert all(read_fields(described).values())
    assert set(EXAMPLES) == {(one, field.name) for one in (Arg, Draw) for field in fields(one)}
