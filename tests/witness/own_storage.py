"""Gives loop states and branch results their own storage, as in a compiled program, for eager Python.

The state of a loop is new in each iteration, and the final state belongs to the loop: the initial state keeps its
contents. A branch returns a new value, even if it returns its argument.
"""

import importlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import jax

from tests.oracle.narrow_floats import override


def copy(value: Any) -> Any:
    """Returns the value in its own memory, by an operation of JAX that autodiff can differentiate."""
    lax: Any = importlib.import_module("jax._src.lax.lax")
    return lax.copy_p.bind(value) if isinstance(value, jax.Array) else value


def copy_tree(tree: Any) -> Any:
    """Returns the tree with each array in its own memory."""
    return jax.tree.map(copy, tree)


@contextmanager
def give_loops_their_own_storage() -> Iterator[None]:
    """Patches `jax.lax`; functions that were imported by name before stay as they were."""
    loops: Any = importlib.import_module("jax._src.lax.control_flow.loops")
    conditionals: Any = importlib.import_module("jax._src.lax.control_flow.conditionals")
    scan, while_loop, cond, switch = loops.scan, loops.while_loop, conditionals.cond, conditionals.switch

    def scan_own(f: Callable[..., Any], init: Any, *args: Any, **keywords: Any) -> Any:
        state, stacked = scan(lambda carry, x: f(copy_tree(carry), x), init, *args, **keywords)
        return copy_tree(state), stacked

    def while_own(condition: Callable[..., Any], body: Callable[..., Any], init: Any) -> Any:
        return copy_tree(while_loop(condition, lambda state: body(copy_tree(state)), init))

    def cond_own(*args: Any, **keywords: Any) -> Any:
        return copy_tree(cond(*args, **keywords))

    def switch_own(*args: Any, **keywords: Any) -> Any:
        return copy_tree(switch(*args, **keywords))

    with ExitStack() as stack:
        for holder in (jax.lax, loops):
            stack.enter_context(override(holder, scan=scan_own, while_loop=while_own))
        for holder in (jax.lax, conditionals):
            stack.enter_context(override(holder, cond=cond_own, switch=switch_own))
        yield
