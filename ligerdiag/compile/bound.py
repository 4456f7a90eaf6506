"""Both sides: a function with some of its positional arguments given, as `jax.jit` has it with `static_argnums`."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any


class Bound:
    """Calls `function` with `values` at their positions and the other arguments around them."""

    def __init__(self, function: Callable[..., Any], values: Mapping[int, Any]) -> None:
        self.function = function
        self.values = dict(sorted(values.items()))
        self.__name__ = getattr(function, "__name__", type(function).__name__)

    def __call__(self, *arguments: Any) -> Any:
        """Returns the function's result."""
        every = list(arguments)
        for position, value in self.values.items():
            every.insert(position, value)
        return self.function(*every)

    @property
    def __signature__(self) -> inspect.Signature:
        """That of the function without what is given."""
        parameters = inspect.signature(self.function).parameters.values()
        return inspect.Signature([one for number, one in enumerate(parameters) if number not in self.values])
