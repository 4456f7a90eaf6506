"""Locations as in older Python bindings of MLIR: text, and operations that keep their location."""

import random
from itertools import product

import jax
import jax.numpy as jnp
import pytest
from jaxlib.mlir import ir

from ligerdiag.compile.lowering import tags
from ligerdiag.compile.lowering.tags import walk_operations


def lower() -> ir.Module:
    def step(carry: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jnp.where(carry > 0, carry + x, -x), jnp.sum(carry)

    specs = jax.ShapeDtypeStruct((4,), "float32"), jax.ShapeDtypeStruct((3, 4), "float32")
    jax.clear_caches()
    return jax.jit(lambda c, xs: jax.lax.scan(step, c, xs)).lower(*specs).compiler_ir("stablehlo")


def test_an_operation_that_keeps_its_location_is_replaced_with_everything_inside_it() -> None:
    module = lower()
    before = module.operation.get_asm(enable_debug_info=False)
    operations = list(walk_operations(module.operation))
    assert any(operation.name == "stablehlo.while" for operation in operations)
    for number, operation in reversed(list(enumerate(operations))):
        tags.replace_operation(operation, ir.Location.name(f"made {number}", context=module.context))
    assert module.operation.verify()
    assert module.operation.get_asm(enable_debug_info=False) == before
    names = [tags.read_name(operation.location) for operation in walk_operations(module.operation)]
    assert names == [f"made {number}" for number in range(len(operations))]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('loc("jit(f)/mul#ld17"(callsite("f"("a.py":1:2) at "g"("b.py":30:4))))', "jit(f)/mul#ld17"),
        ('loc("alone")', "alone"),
        ('loc("with \\22quotes\\22 and \\\\"("a.py":1:2))', 'with "quotes" and \\'),
        ('loc("a.py":1:2)', None),
        ('loc(callsite("f"("a.py":1:2) at "g"("b.py":3:4)))', None),
        ("loc(unknown)", None),
    ],
)
def test_the_name_is_read_from_text(text: str, name: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tags, "_HAS_CLASSES", False)
    assert tags.read_name(text) == name


def test_lines_are_read_from_text_innermost_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tags, "_HAS_CLASSES", False)
    text = 'loc("mul"(callsite("f"("/a/\\C3\\A4.py":1:2) at callsite("g"("/b.py":30:4) at "h"("/c.py":5:1)))))'
    assert list(tags.iterate_lines(text)) == [("/a/ä.py", 1), ("/b.py", 30), ("/c.py", 5)]


@pytest.mark.parametrize("text", ["plain", 'with "quotes" \\ and ä\n'])
def test_a_printed_location_is_parsed_again(text: str) -> None:
    assert tags._read_string(tags._print_string(text)) == text


def test_layers_of_two_traces_are_paired_although_each_has_extra_operations() -> None:
    """The longest equal run, `abab`, would pair a layer with the next one."""
    ours, others = ([(name, "", ()) for name in text] for text in ("ababaYbab", "YabYababab"))
    assert list(tags.match_keys(ours, others)) == [(0, 1), (1, 2), (2, 4), (3, 5), (4, 6), (6, 7), (7, 8), (8, 9)]


def test_random_layers_are_paired_correctly() -> None:
    """At most one pair in a hundred is wrong: only an operation that one trace adds shows which layer it is."""
    wrong = pairs = 0
    for seed in range(300):
        draw = random.Random(seed)
        names = "abcdefgh"[: draw.randint(2, 8)]
        layers = draw.randint(2, 6)
        traces: list[list[tuple[str, int]]] = [[], []]
        for trace in traces:
            for layer, name in product(range(layers), names):
                trace.extend([(draw.choice("XYZ"), -1)] * (draw.random() < 0.08))
                trace.append((name, layer))
        found = list(tags.match_keys(*([(name, "", ()) for name, _ in trace] for trace in traces)))
        wrong += sum(traces[0][a] != traces[1][b] for a, b in found)
        pairs += len(found)
    assert wrong / pairs < 0.01
