"""Records how a program calls Pallas while JAX traces it, and writes the recorded calls as Python. Runs in a worker."""

import enum
import importlib
import inspect
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import partial
from typing import Any, cast

import numpy as np

from ligerdiag.reduce.expressions import write_value, write_value_dtype
from ligerdiag.reduce.kernel_source import SourceCopier, UnwritableError

_PREFIX = "ligerdiag_pallas_"
_MODULES = {
    "pl": "jax.experimental.pallas",
    "plgpu": "jax.experimental.pallas.mosaic_gpu",
    "pltriton": "jax.experimental.pallas.triton",
}
"""The modules that a written call imports, by the names that it gives them."""
_ENTRIES = (("pl", "pallas_call"), ("pl", "kernel"), ("plgpu", "pallas_call"), ("plgpu", "kernel"))

_BY_PLACE = {"BlockSpec": ("block_shape", "index_map")}
"""The two first fields of a class, which are written without their names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PallasCall:
    """One call of Pallas that the program made while it was traced."""

    entry: str
    """The function that was called, such as `pl.pallas_call`."""
    kernel: Any
    keywords: Mapping[str, Any]
    """All other arguments of the function `entry`, by name."""
    tree: Any
    """The structure of the call's operands."""
    types: tuple[tuple[tuple[int, ...], str], ...]
    """Shape and dtype of each operand."""
    out_tree: Any
    """The structure of the results."""

    @property
    def is_flat(self) -> bool:
        """Returns whether the kernel gets each Ref as an argument of its own, and none in a tuple or dict."""
        operands = self.tree.unflatten(range(self.tree.num_leaves))
        results: Any = self.out_tree.unflatten(range(self.out_tree.num_leaves))
        given: list[Any] = [*operands, *(results if isinstance(results, tuple | list) else [results])]
        return all(isinstance(one, int) for one in given) and not self.keywords.get("grid_spec")


@dataclass(slots=True)
class PallasCalls:
    """All calls of Pallas that a program made while it was traced."""

    calls: dict[str, PallasCall] = field(default_factory=dict[str, PallasCall])
    """Maps the name of the traced function that represents a call of Pallas to the record of this call."""

    @contextmanager
    def record(self) -> Generator[None]:
        """Records the calls that are made inside the `with` block.

        The modules of the program must be imported inside the block as well.
        """
        with ExitStack() as stack:
            for alias, name in _ENTRIES:
                try:
                    module = importlib.import_module(_MODULES[alias])
                except ImportError:
                    continue
                if hasattr(module, name):
                    original = getattr(module, name)
                    stack.callback(setattr, module, name, original)
                    setattr(module, name, self._wrap(f"{alias}.{name}", original))
            yield

    def _wrap(self, entry: str, original: Callable[..., Any]) -> Callable[..., Any]:
        first, *_ = inspect.signature(original).parameters

        def make(*args: Any, **words: Any) -> Any:
            bound = inspect.signature(original).bind_partial(*args, **words)
            kernel = bound.arguments.get(first)
            if not callable(kernel):  # a decorator
                return partial(make, *args, **words)
            return self._note(entry, kernel, original(*args, **words), _list_keywords(bound, first))

        return make

    def _note(self, entry: str, kernel: Any, called: Callable[..., Any], keywords: Mapping[str, Any]) -> Any:
        jax: Any = importlib.import_module("jax")

        def call(*operands: Any) -> Any:
            leaves, tree = jax.tree.flatten(operands)
            name = f"{_PREFIX}{len(self.calls)}"
            shapes: list[Any] = []

            def run(*values: Any) -> Any:
                results = called(*tree.unflatten(values))
                shapes.append(jax.tree.structure(results))
                return results

            run.__name__ = name
            results = jax.jit(run)(*leaves)
            self.calls[name] = PallasCall(
                entry=entry,
                kernel=kernel,
                keywords=keywords,
                tree=tree,
                types=tuple(_describe(jax.typeof(one)) for one in leaves),
                out_tree=shapes[0],
            )
            return results

        return call

    def find(self, eqn: Any) -> PallasCall | None:
        """Returns the recorded call from which an operation of the jaxpr comes.

        None if the operation is no call of Pallas, or if JAX transformed the call, for example by `jax.vmap`.
        """
        found = self.calls.get(str(eqn.params.get("name", "")))
        if found is None or tuple(_describe(var.aval) for var in eqn.invars) != found.types:
            return None
        return found if len(eqn.outvars) == found.out_tree.num_leaves else None


def _describe(aval: Any) -> tuple[tuple[int, ...], str]:
    return tuple(aval.shape), str(aval)


def _list_keywords(bound: inspect.BoundArguments, first: str) -> Mapping[str, Any]:
    words: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        if name != first:
            kind = bound.signature.parameters[name].kind
            words |= value if kind is inspect.Parameter.VAR_KEYWORD else {name: value}
    return words


def write_pallas_call(
    call: PallasCall, copier: SourceCopier, print_kernel: Callable[[], str | None]
) -> tuple[str, bool]:
    """Returns the call as Python source, with `{0}`, `{1}` for its operands, and whether it returns a tuple or list.

    The source of the kernel is copied. print_kernel: prints a kernel that cannot be copied, and returns its name; None if
    that is impossible. Raises UnwritableError for an argument without a Python form.
    """
    writer = _Writer(copier=copier)
    try:
        kernel = copier.write_function(call.kernel)
    except UnwritableError:
        printed = print_kernel() if call.is_flat else None
        if printed is None:
            raise
        kernel = printed
    words = [kernel, *(f"{name}={writer.write(value)}" for name, value in call.keywords.items())]
    alias = call.entry.split(".", maxsplit=1)[0]
    writer.use(alias)
    places = [f"{{{number}}}" for number in range(call.tree.num_leaves)]
    operands = _write_tree(call.tree.unflatten(places))
    made = f"{call.entry}({', '.join(words)})".replace("{", "{{").replace("}", "}}")
    text = f"{made}({', '.join(operands)})"
    count = call.out_tree.num_leaves
    shape = call.out_tree.unflatten(range(count))
    if count and shape == 0:
        return text, False
    if isinstance(shape, tuple | list) and list(cast("Sequence[Any]", shape)) == list(range(count)):
        return text, True
    return f"jax.tree.leaves({text})", True


def _write_tree(operands: Any) -> list[str]:
    written: list[str] = []
    for one in operands:
        if isinstance(one, str):
            written.append(one)
        elif isinstance(one, tuple | list):
            parts = _write_tree(one)
            inner = ", ".join(parts)
            written.append(f"[{inner}]" if isinstance(one, list) else f"({inner}{',' if len(parts) == 1 else ''})")
        else:
            raise UnwritableError(f"has an operand of type `{type(one).__name__}`, which has no Python form")
    return written


@dataclass(slots=True)
class _Writer:
    """Writes arguments of a Pallas call."""

    copier: SourceCopier

    def use(self, alias: str) -> None:
        """Adds an import of the Pallas module that is known by this alias."""
        package, _, last = _MODULES[alias].rpartition(".")
        self.copier.imports.append(f"from {package} import {last} as {alias}")

    def write(self, value: Any) -> str:
        """Returns the Python source of an argument. Raises UnwritableError if the argument has no such form."""
        kind = cast("type[Any]", type(value))
        if isinstance(value, enum.Enum):
            return f"{self._find_class(kind)}.{value.name}"
        if isinstance(value, dict):
            items = cast("dict[Any, Any]", value).items()
            return "{" + ", ".join(f"{self.write(one)}: {self.write(other)}" for one, other in items) + "}"
        if type(value) in (tuple, list):
            parts = [self.write(one) for one in value]
            inner = ", ".join(parts)
            return f"[{inner}]" if type(value) is list else f"({inner}{',' if len(parts) == 1 else ''})"
        if kind.__name__ == "GPUMemoryRef" and not value.layout:
            return self._write_memory(value)
        if kind.__name__ in ("ShapeDtypeStruct", "ShapedArray"):
            return f"jax.ShapeDtypeStruct({_write_shape(value)})"
        if kind.__name__ == "_IndexMapFunc":
            return self.copier.write_function(value.index_map)
        if is_dataclass(value) and not isinstance(value, type):
            return self._write_dataclass(value, kind)
        return self.copier.write_parameter(value)

    def _write_dataclass(self, value: Any, kind: type[Any]) -> str:
        words: list[str] = []
        for one in fields(value):
            found = getattr(value, one.name)
            default = one.default_factory() if one.default_factory is not MISSING else one.default
            if one.init and (default is MISSING or not _is_same(found, default)):
                by_place = len(words) < 2 and one.name == _BY_PLACE.get(kind.__name__, ("", ""))[len(words)]
                words.append(self.write(found) if by_place else f"{one.name}={self.write(found)}")
        return f"{self._find_class(kind)}({', '.join(words)})"

    def _write_memory(self, value: Any) -> str:
        self.use("plgpu")
        transforms = f", transforms={self.write(tuple(value.transforms))}" if value.transforms else ""
        return f"plgpu.{value.memory_space.name}({_write_shape(value.inner_aval)}{transforms})"

    def _find_class(self, kind: type[Any]) -> str:
        for alias, name in _MODULES.items():
            try:
                module = importlib.import_module(name)
            except ImportError:
                continue
            public = [each for each, one in vars(module).items() if one is kind and not each.startswith("_")]
            if public:
                self.use(alias)
                return f"{alias}.{public[0]}"
        raise UnwritableError(f"has an argument of type `{kind.__name__}`, which has no Python form")


def _is_same(value: Any, default: Any) -> bool:
    return value is default or (type(value) is type(default) and bool(value == default))


def _write_shape(value: Any) -> str:
    return f"{write_value(tuple(value.shape))}, {write_value_dtype(np.dtype(value.dtype).name)}"
