"""Worker side: finds the functions that were replaced by their own differentiation rule.

In the body of a scan, a map or a remat JAX traces the function under a `custom_vjp` or `custom_jvp` before it knows
whether the body is differentiated. If it is, the rule (`fwd`, `jvp`) replaces the function, and the function's calls
are in no program. Such a kernel call was not dropped: it was never meant to run.
"""

import functools
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import jax

_library: Any = jax
_RULES = ((_library.custom_vjp, "fwd"), (_library.custom_jvp, "jvp"))
"""Class, and the attribute that holds the rule which replaces the function."""


@dataclass(slots=True, eq=False)
class RuleCall:
    """One call of a function that has a rule of its own."""

    replaced: bool = False
    """Its rule was traced."""


_inside: ContextVar[tuple[RuleCall, ...]] = ContextVar("inside", default=())


def find_rule_calls() -> tuple[RuleCall, ...]:
    """The calls whose own function, not its rule, is being traced; outermost first."""
    return _inside.get()


@contextmanager
def watch_rules() -> Generator[None]:
    """Notes inside the context which function is traced, and which rule."""
    with ExitStack() as stack:
        for kind, rule in _RULES:
            stack.enter_context(_watched(kind, rule))
        yield


@contextmanager
def _watched(kind: Any, rule: str) -> Generator[None]:
    original = kind.__call__

    @functools.wraps(original)
    def call(self: Any, *args: Any, **keywords: Any) -> Any:
        if getattr(self, rule, None) is None:
            return original(self, *args, **keywords)  # it says itself what it lacks
        made = RuleCall()
        twin: Any = object.__new__(kind)
        twin.__dict__.update(self.__dict__)
        twin.fun = _mark_function(self.fun, made)
        setattr(twin, rule, _mark_rule(getattr(self, rule), made))
        return original(twin, *args, **keywords)

    kind.__call__ = call
    try:
        yield
    finally:
        kind.__call__ = original


def _mark_function(function: Any, made: RuleCall) -> Any:
    @functools.wraps(function)
    def marked(*args: Any, **keywords: Any) -> Any:
        token = _inside.set((*_inside.get(), made))
        try:
            return function(*args, **keywords)
        finally:
            _inside.reset(token)

    return marked


def _mark_rule(rule: Any, made: RuleCall) -> Any:
    @functools.wraps(rule)
    def marked(*args: Any, **keywords: Any) -> Any:
        made.replaced = True
        return rule(*args, **keywords)

    return marked
