"""Finds the globals of a module that depend on JAX's answers about devices.

A worker answers such a question with the target's devices, and the caller's JAX has answered with its own, so these
globals differ although nobody has changed them. `compute_bases` makes their values once more with the caller's answers:
a global that has this value in the caller's process keeps the one that was made with the target's answers.
"""

import ast
import dis
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from ligerdiag.compile.cases.device_queries import answer_here

_QUERIES = frozenset(
    {"default_backend", "devices", "local_devices", "device_count", "local_device_count", "get_backend", "platform"}
    | {"device_kind", "get_default_device", "process_count", "make_mesh", "compute_capability"}
)


def compute_bases(
    module: ModuleType, lines: Iterable[int], others: Mapping[str, Mapping[str, Any]]
) -> tuple[dict[str, Any], frozenset[str]]:
    """Computes those globals of the module that depend on the devices once more, with JAX's answers on this machine.
    Returns their values by name, and the names of the globals whose values could not be computed.

    lines: the lines at which the module asked for devices while it was imported. others: the values of such globals of
    other modules.
    """
    asked = set(lines)
    imported = {name for found in others.values() for name in found}
    if not asked and not imported:
        return {}, frozenset()
    try:
        tree = ast.parse(Path(module.__file__ or "").read_bytes())
    except (OSError, SyntaxError):
        return {}, frozenset()
    bases: dict[str, Any] = {}
    unknown: set[str] = set()
    for statement in tree.body:
        if isinstance(statement, ast.ImportFrom):
            bases.update(_follow(module, statement, others))
            continue
        lowest = min([statement.lineno, *(one.lineno for one in getattr(statement, "decorator_list", ()))])
        asks = not asked.isdisjoint(range(lowest, (statement.end_lineno or lowest) + 1))
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.Import) or not (
            asks or _loads(statement) & (bases.keys() | unknown)
        ):
            continue
        names, changed = _list_stored(statement), _list_changed(statement)
        made = _run(module, statement, bases) if not changed and not _loads(statement) & unknown else None
        names |= changed
        if made is None:
            unknown |= names
            for name in names:
                bases.pop(name, None)
        else:
            bases.update({name: made[name] for name in names if name in made})
            unknown -= names & made.keys()
    return bases, frozenset(unknown)


def list_remembered(module: ModuleType) -> frozenset[str]:
    """Returns the names of the module's globals in which one of its functions may store an answer about the devices."""
    functions = [
        one for one in vars(module).values() if isinstance(one, FunctionType) and one.__module__ == module.__name__
    ]
    codes = {one.__name__: one.__code__ for one in functions}
    asking = {name for name, code in codes.items() if _QUERIES.intersection(code.co_names)}
    while more := {name for name, code in codes.items() if name not in asking and asking.intersection(code.co_names)}:
        asking |= more
    return frozenset(name for one in asking for name in _list_global_stores(codes[one]))


def _follow(module: ModuleType, statement: ast.ImportFrom, others: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    package = (module.__package__ or "").split(".")
    above = package[: len(package) - statement.level + 1] if statement.level else []
    found = others.get(".".join([*filter(None, above), *([statement.module] if statement.module else [])]), {})
    return {one.asname or one.name: found[one.name] for one in statement.names if one.name in found}


def _run(module: ModuleType, statement: ast.stmt, bases: Mapping[str, Any]) -> dict[str, Any] | None:
    space = {**vars(module), **bases}
    try:
        code = compile(ast.Module(body=[statement], type_ignores=[]), module.__file__ or "", "exec", dont_inherit=True)
        with answer_here():
            exec(code, space)
    except Exception:
        return None
    return space


def _loads(statement: ast.stmt) -> set[str]:
    return {one.id for one in ast.walk(statement) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)}


def _list_stored(statement: ast.stmt) -> set[str]:
    if isinstance(statement, ast.ClassDef):
        return {statement.name}
    names = {one.id for one in ast.walk(statement) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    imports = [one for one in ast.walk(statement) if isinstance(one, ast.Import | ast.ImportFrom)]
    return names | {one.asname or one.name.partition(".")[0] for each in imports for one in each.names}


def _list_changed(statement: ast.stmt) -> set[str]:
    """Returns the names of the objects that the statement may change, by an assignment to a part or by calling a method
    and ignoring the result: such a statement cannot be run a second time.
    """
    parts = [
        one.value
        for one in ast.walk(statement)
        if isinstance(one, ast.Attribute | ast.Subscript) and isinstance(one.ctx, ast.Store)
    ]
    parts += [
        one.value.func for one in ast.walk(statement) if isinstance(one, ast.Expr) and isinstance(one.value, ast.Call)
    ]
    found: set[str] = set()
    while parts:
        match parts.pop():
            case ast.Attribute(value=inner) | ast.Subscript(value=inner) | ast.Call(func=inner):
                parts.append(inner)
            case ast.Name(id=name):
                found.add(name)
            case _:
                continue
    return found


def _list_global_stores(code: CodeType) -> set[str]:
    return {str(one.argval) for one in dis.get_instructions(code) if one.opname == "STORE_GLOBAL"}
