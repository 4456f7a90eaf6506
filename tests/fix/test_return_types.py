"""A function that returns the new contents as well says so in its annotation. Nothing is compiled."""

import libcst as cst
import pytest

from ligerdiag.fix.results.return_statements import extend_return_type


@pytest.mark.parametrize(
    ("head", "is_sequence", "expected"),
    [
        ("x: jax.Array) -> jax.Array", False, "tuple[jax.Array, jax.Array]"),
        ("x) -> jax.Array", False, "tuple[jax.Array, jax.Array]"),
        ("x) -> jnp.ndarray", False, "tuple[jnp.ndarray, jnp.ndarray]"),
        ('x) -> "jax.Array"', False, '"tuple[jax.Array, jax.Array]"'),
        ("x: 'Array') -> 'Array'", False, "'tuple[Array, Array]'"),
        ('x: "Array") -> Array', False, 'tuple[Array, "Array"]'),
        ('x: Float[Array, "rows"]) -> Float[Array, ""]', False, 'tuple[Float[Array, ""], Float[Array, "rows"]]'),
        ("x: A) -> Losses", False, "tuple[Losses, A]"),
        ("x: A) -> tuple[A, B]", False, "tuple[tuple[A, B], A]"),
        ("x: A) -> tuple[A, B]", True, "tuple[A, B, A]"),
        ("x) -> tuple[int, jax.Array]", True, "tuple[int, jax.Array, jax.Array]"),
        ("x: A) -> Tuple[A, B]", True, "Tuple[A, B, A]"),
        ("x: A) -> typing.Tuple[A, B]", True, "typing.Tuple[A, B, A]"),
        ("x: A) -> 'tuple[A, B]'", True, "'tuple[A, B, A]'"),
        ("x: A) -> tuple[A, ...]", True, "tuple[A, ...]"),
        ("*, x: A) -> A", False, "tuple[A, A]"),
        ("x: B) -> tuple[A, ...]", True, None),
        ("x) -> Losses", False, None),
        ("x: A) -> Pair", True, None),
        ("x: A) -> list[A]", True, None),
        ("x: 'F[A, \"rows\"]') -> 'F[A, \"\"]'", False, '\'tuple[F[A, ""], F[A, "rows"]]\''),
        ("x: \"F[A, 'rows']\") -> 'F'", False, None),
        ("x: A)", False, None),
    ],
)
def test_the_new_contents_have_the_type_of_their_parameter(head: str, is_sequence: bool, expected: str | None) -> None:
    function = cst.ensure_type(cst.parse_statement(f"def f({head}: pass\n"), cst.FunctionDef)
    found = extend_return_type(function, ["x"], is_sequence=is_sequence)
    text = None if found is None else cst.Module(body=()).code_for_node(found.annotation)
    assert text == expected
    if text is not None:
        compile(f"def f() -> {text}: pass", "f", "exec")
