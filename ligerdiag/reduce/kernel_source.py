"""Copies the source of a Triton kernel, with all that it uses of its own module: constants and other functions. Runs in a
worker.
"""

import ast
import builtins
import inspect
import textwrap
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, cast

from ligerdiag.reduce.expressions import write_value

_NAMES = frozenset(dir(builtins))


@dataclass(frozen=True, slots=True)
class KernelSource:
    """The definition of a kernel as Python."""

    name: str
    """The name by which the definition makes the kernel available."""
    imports: tuple[str, ...] = ()
    definitions: dict[str, str] = field(default_factory=dict[str, str])
    """From each name that is defined to its source, in the order in which they can be executed."""


def copy_source(kernel: Any) -> KernelSource:
    """Returns the source of the kernel, as it stands in its file. Raises OSError or TypeError if there is no source, as
    for a kernel that was made by `exec`.

    What a kernel uses and cannot be copied (a class, a value of another package) is imported from its module.
    """
    function = unwrap(kernel)
    imports: list[str] = []
    definitions: dict[str, str] = {}
    _copy(function, function.__name__, imports, definitions)
    return KernelSource(name=function.__name__, imports=tuple(sorted(set(imports))), definitions=definitions)


def unwrap(kernel: Any) -> Any:
    """Returns the Python function inside of Triton's decorators."""
    while not inspect.isfunction(kernel) and hasattr(kernel, "fn"):
        kernel = kernel.fn
    return kernel


def _copy(function: Any, name: str, imports: list[str], definitions: dict[str, str]) -> None:
    text = textwrap.dedent(inspect.getsource(function))
    tree = ast.parse(text)
    for used in sorted({node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}):
        if used in definitions or used == name or used not in function.__globals__ or used in _NAMES:
            continue
        _copy_global(used, function.__globals__[used], imports, definitions)
    for used, value in inspect.getclosurevars(function).nonlocals.items() if function.__closure__ else ():
        _copy_global(used, value, imports, definitions)
    definitions[name] = text.rstrip() + "\n"


def _copy_global(name: str, value: Any, imports: list[str], definitions: dict[str, str]) -> None:
    if isinstance(value, ModuleType):
        package, _, last = value.__name__.rpartition(".")
        imports.append(
            f"import {name}"
            if value.__name__ == name
            else f"from {package} import {last}"
            if last == name and package
            else f"import {value.__name__} as {name}"
        )
        return
    inner = unwrap(value)
    kind = cast("type[Any]", type(value))
    module = str(getattr(value, "__module__", "") or kind.__module__)
    if module.split(".", maxsplit=1)[0] in ("triton", "jax", "numpy", "math"):
        if kind.__name__ == "constexpr":
            imports.append("import triton.language as tl")
            definitions[name] = f"{name} = tl.constexpr({write_value(value.value)})\n"
        else:
            if inspect.isfunction(inner) and not inner.__module__.startswith(("triton", "jax", "numpy")):
                _copy(inner, name, imports, definitions)
                return
            imports.append(f"from {module} import {name}")
        return
    if inspect.isfunction(inner):
        _copy(inner, name, imports, definitions)
        return
    text = write_value(value)
    if text is not None:
        definitions[name] = f"{name} = {text}\n"
    else:
        imports.append(f"from {module} import {name}")
