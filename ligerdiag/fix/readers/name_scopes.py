"""Resolves the variables of a file: the function that a name belongs to, where the name is read and bound, and whether it is
read after a call.

Control flow is followed block by block. In case of doubt, a read counts as a read after the call.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto

import libcst as cst

from ligerdiag.fix.source_file import SourceFile, get_name

type Scope = cst.FunctionDef | cst.Lambda | cst.ClassDef | cst.BaseComp | cst.Module

_LOOPS = cst.For | cst.While
_STRUCTURES = cst.Tuple | cst.List | cst.Element | cst.StarredElement


class _Use(Enum):
    READ = auto()
    BOUND = auto()
    BOTH = auto()
    """Read and bound again, as by `x += 1`."""
    NONE = auto()
    """No variable: an attribute's name, a keyword."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SourceVariable:
    """A variable of one function or of the module: a name, and all places that read or bind it."""

    name: str
    scope: Scope
    reads: tuple[cst.Name, ...]
    bindings: tuple[cst.Name, ...]
    """The places where the variable gets a value, including a parameter's declaration."""

    @property
    def is_global(self) -> bool:
        return isinstance(self.scope, cst.Module | cst.ClassDef)


def find_variable(file: SourceFile, node: cst.CSTNode, name: str) -> SourceVariable:
    """Returns the variable to which `name` refers at `node`."""
    scope = _find_scope(file, node, name)
    reads: list[cst.Name] = []
    bindings: list[cst.Name] = []
    for one in file.find(cst.Name, scope):
        if one.value != name or (use := _classify(file, one)) is _Use.NONE:
            continue
        if _find_scope(file, one, name) is not scope:
            continue
        if use in (_Use.READ, _Use.BOTH):
            reads.append(one)
        if use in (_Use.BOUND, _Use.BOTH):
            bindings.append(one)
    return SourceVariable(name=name, scope=scope, reads=tuple(reads), bindings=tuple(bindings))


def is_parameter(file: SourceFile, variable: SourceVariable) -> bool:
    """Returns whether the variable is a parameter of its function."""
    return any(_is_parameter(file, one) for one in variable.bindings)


def _is_parameter(file: SourceFile, binding: cst.Name) -> bool:
    parent = next(file.list_parents(binding))
    return isinstance(parent, cst.Param) and parent.name is binding


def list_assignments(file: SourceFile, variable: SourceVariable) -> list[cst.Name]:
    """Returns the places that assign a value to the variable. The declaration of a parameter does not count."""
    return [one for one in variable.bindings if not _is_parameter(file, one)]


def _classify(file: SourceFile, name: cst.Name) -> _Use:
    child: cst.CSTNode = name
    for parent in file.list_parents(name):
        match parent:
            case cst.Attribute(attr=part) | cst.Arg(keyword=part) if part is child:
                return _Use.NONE
            case cst.NameItem() | cst.ImportFrom():
                return _Use.NONE
            case cst.Param(name=part) | cst.FunctionDef(name=part) | cst.ClassDef(name=part) if part is child:
                return _Use.BOUND
            case cst.ImportAlias() | cst.AsName() | cst.AssignTarget() | cst.Del() | cst.MatchAs() | cst.MatchStar():
                return _Use.BOUND
            case cst.AugAssign(target=part) if part is child:
                return _Use.BOTH
            case (
                cst.AnnAssign(target=part)
                | cst.For(target=part)
                | cst.CompFor(target=part)
                | cst.NamedExpr(target=part)
            ) if part is child:
                return _Use.BOUND
            case cst.Tuple() | cst.List() | cst.Element() | cst.StarredElement():
                child = parent
            case _:
                return _Use.READ
    return _Use.READ


def _find_scope(file: SourceFile, node: cst.CSTNode, name: str) -> Scope:
    child, is_in_function = node, False
    for parent in file.list_parents(node):
        match parent:
            case cst.FunctionDef() if child is parent.body or _is_own_parameter(file, node, parent):
                if _binds(file, parent, name):
                    return parent
                is_in_function = True
            case cst.Lambda() if child is parent.body or _is_own_parameter(file, node, parent):
                if any(one.value == name for one in _list_parameter_names(parent.params)):
                    return parent
                is_in_function = True
            case cst.ListComp() | cst.SetComp() | cst.DictComp() | cst.GeneratorExp():
                if any(one.value == name and _classify(file, one) is _Use.BOUND for one in file.find(cst.Name, parent)):
                    return parent
            case cst.ClassDef() if not is_in_function and child is parent.body and _binds(file, parent, name):
                return parent
            case cst.Module():
                return parent
            case _:
                pass
        child = parent
    return file.module


def _is_own_parameter(file: SourceFile, node: cst.CSTNode, function: cst.FunctionDef | cst.Lambda) -> bool:
    parent = next(file.list_parents(node), None)
    return (
        isinstance(parent, cst.Param) and parent.name is node and parent in list(file.find(cst.Param, function.params))
    )


def _list_parameter_names(parameters: cst.Parameters) -> Iterator[cst.Name]:
    listed = [*parameters.posonly_params, *parameters.params, *parameters.kwonly_params, parameters.star_kwarg]
    if isinstance(parameters.star_arg, cst.Param):
        listed.append(parameters.star_arg)
    yield from (one.name for one in listed if one is not None)


def _binds(file: SourceFile, scope: cst.FunctionDef | cst.ClassDef, name: str) -> bool:
    if isinstance(scope, cst.FunctionDef):
        if any(one.value == name for one in _list_parameter_names(scope.params)):
            return True
        outer = (
            item for kind in (cst.Global, cst.Nonlocal) for one in file.find(kind, scope.body) for item in one.names
        )
        if any(item.name.value == name for item in outer):
            return False
    for one in file.find(cst.Name, scope.body):
        if one.value != name or _classify(file, one) not in (_Use.BOUND, _Use.BOTH):
            continue
        owner = next(
            parent
            for parent in file.list_parents(one)
            if isinstance(parent, cst.FunctionDef | cst.Lambda | cst.ClassDef | cst.Module)
            and getattr(parent, "name", None) is not one
        )
        comprehension = any(isinstance(parent, cst.CompFor) for parent in file.list_parents(one))
        if owner is scope and not (comprehension and not _is_named(file, one)):
            return True
    return False


def _is_named(file: SourceFile, name: cst.Name) -> bool:
    parent = next(file.list_parents(name))
    return isinstance(parent, cst.NamedExpr) and parent.target is name


def find_later_read(
    file: SourceFile, call: cst.CSTNode, variable: SourceVariable, *, apart_from: cst.CSTNode | None = None
) -> cst.Name | None:
    """Returns a place after the call that may read the variable before the variable gets another value.

    None if there is no such place. apart_from: an expression whose reads do not count.
    """
    inside, reads = set(file.find(cst.Name, call)), set(variable.reads)
    if apart_from is not None:
        inside |= set(file.find(cst.Name, apart_from))
    statement = _find_statement(file, call)
    own = [one for one in file.find(cst.Name, statement) if one in reads and one not in inside]
    if own:
        return own[0]
    if isinstance(variable.scope, cst.Lambda | cst.BaseComp):
        return None
    if _is_in_nested_scope(file, call, variable):  # a function that was called may be called again
        return next((one for one in variable.reads if one not in inside), None)
    nested = [one for one in variable.reads if one not in inside and _is_in_nested_scope(file, one, variable)]
    if _binds_again(file, statement, variable):
        return None
    return nested[0] if nested else _scan_from(file, statement, variable)


def _scan_from(file: SourceFile, statement: cst.CSTNode, variable: SourceVariable) -> cst.Name | None:
    node = statement
    for parent in file.list_parents(statement):
        match parent:
            case cst.IndentedBlock(body=body) | cst.Module(body=body) | cst.SimpleStatementSuite(body=body):
                after = body[_find_index(body, node) + 1 :]
                found, ends = _scan(file, after, variable)
            case cst.For(body=body) | cst.While(body=body) if node is body:
                found, ends = (
                    _scan(file, [parent], variable) if _is_read_first(file, parent, variable) else (None, False)
                )
            case _:
                found, ends = None, False
        if found is not None or ends or parent is variable.scope:
            return found
        node = parent
    return None


def _is_read_first(file: SourceFile, loop: cst.For | cst.While, variable: SourceVariable) -> bool:
    """Returns whether the next round of a loop may read the variable before it binds it again."""
    if isinstance(loop, cst.For) and any(one in variable.bindings for one in file.find(cst.Name, loop.target)):
        return False
    if isinstance(loop, cst.While) and any(one in variable.reads for one in file.find(cst.Name, loop.test)):
        return True
    return _scan(file, loop.body.body, variable)[0] is not None


def _scan(
    file: SourceFile, statements: Sequence[cst.CSTNode], variable: SourceVariable
) -> tuple[cst.Name | None, bool]:
    """Returns the first read in a row of statements, and whether nothing behind them can read the old value."""
    for one in statements:
        read = next((name for name in file.find(cst.Name, one) if name in variable.reads), None)
        if read is not None:
            return read, True
        if _binds_again(file, one, variable):
            return None, True
        if isinstance(one, cst.SimpleStatementLine) and any(isinstance(s, cst.Return | cst.Raise) for s in one.body):
            return None, True
    return None, False


def _binds_again(file: SourceFile, statement: cst.CSTNode, variable: SourceVariable) -> bool:
    if not isinstance(statement, cst.SimpleStatementLine | cst.BaseSmallStatement):
        return False
    return any(one in variable.bindings and not _is_guarded(file, one) for one in file.find(cst.Name, statement))


def _is_guarded(file: SourceFile, name: cst.Name) -> bool:
    return any(isinstance(one, cst.NamedExpr | cst.BaseComp | cst.Lambda) for one in file.list_parents(name))


def _find_index(body: Sequence[cst.CSTNode], node: cst.CSTNode) -> int:
    return next((number for number, one in enumerate(body) if one is node), len(body))


def _find_statement(file: SourceFile, node: cst.CSTNode) -> cst.CSTNode:
    """Returns the innermost statement around a node, the node itself if there is none."""
    return next((one for one in file.list_parents(node) if isinstance(one, cst.BaseStatement)), node)


def _is_in_nested_scope(file: SourceFile, node: cst.CSTNode, variable: SourceVariable) -> bool:
    """Returns whether a node is in a function inside of the variable's own scope."""
    for parent in file.list_parents(node):
        if parent is variable.scope:
            return False
        if isinstance(parent, cst.FunctionDef | cst.Lambda):
            return True
    return False


def is_before(file: SourceFile, node: cst.CSTNode, call: cst.CSTNode) -> bool:
    """Returns whether a node may be evaluated before a call.

    It may if it is above the call, or in a loop or a function that contains both.
    """
    if file.get_lines(node)[0] < file.get_lines(_find_statement(file, call))[0]:
        return True
    around = set(file.list_parents(node))
    return any(isinstance(one, _LOOPS) and one in around for one in file.list_parents(call))


def dominates(file: SourceFile, earlier: cst.CSTNode, call: cst.CSTNode) -> bool:
    """Returns whether a statement always runs before a call.

    It does if it is above the call, in the same block as the call or in a block around it.
    """
    block = next((one for one in file.list_parents(earlier) if isinstance(one, cst.IndentedBlock | cst.Module)), None)
    around = list(file.list_parents(call))
    if block is None or not any(one is block for one in around):
        return False
    function = next((one for one in around if isinstance(one, cst.FunctionDef | cst.Lambda)), None)
    own = next((one for one in file.list_parents(earlier) if isinstance(one, cst.FunctionDef | cst.Lambda)), None)
    return own is function and file.get_lines(earlier)[0] < file.get_lines(_find_statement(file, call))[0]


_LOOP_CALLS = frozenset({"scan", "while_loop", "fori_loop", "associative_scan"})
"""Functions of JAX that call a function with arrays of its own: no two parts of its arguments are one array."""


def find_unpacking(file: SourceFile, whole: SourceVariable, part: SourceVariable) -> cst.CSTNode | None:
    """Returns the statement by which a variable gets a part of the carry of a JAX loop, as in `h, n = carry`.

    The other names in such a statement get other arrays. Returns None if there is no such statement, or if two parts may
    be the same array.
    """
    if not _is_carried(file, whole):
        return None
    for binding in part.bindings:
        for parent in file.list_parents(binding):
            if isinstance(parent, cst.Assign):
                if isinstance(parent.value, cst.Name) and parent.value in whole.reads and len(parent.targets) == 1:
                    return parent
                break
    return None


def _is_carried(file: SourceFile, variable: SourceVariable) -> bool:
    """Returns whether a variable only ever is an argument that a JAX loop passes to its body, or a part of one."""
    if is_parameter(file, variable):
        return not list_assignments(file, variable) and _is_body(file, variable.scope)
    if len(variable.bindings) != 1:
        return False
    for parent in file.list_parents(variable.bindings[0]):
        if isinstance(parent, cst.Assign):
            value = parent.value
            return (
                len(parent.targets) == 1
                and isinstance(value, cst.Name)
                and value.value != variable.name
                and _is_carried(file, find_variable(file, value, value.value))
            )
        if not isinstance(parent, _STRUCTURES | cst.AssignTarget):
            break
    return False


def _is_body(file: SourceFile, function: Scope) -> bool:
    """Returns whether every use of a function is an argument of a JAX loop."""
    if not isinstance(function, cst.FunctionDef) or function.decorators:
        return False
    uses = find_variable(file, function.name, function.name.value).reads
    return bool(uses) and all(_is_argument_of(file, one, _LOOP_CALLS) for one in uses)


def is_own_argument(file: SourceFile, node: cst.CSTNode) -> bool:
    """Returns whether the function at `node` is passed to a JAX loop or to a `Case`, which call it with new arrays."""
    return _is_argument_of(file, node, _LOOP_CALLS | {"Case"})


def _is_argument_of(file: SourceFile, node: cst.CSTNode, names: frozenset[str]) -> bool:
    argument = next(file.list_parents(node))
    call = next(file.list_parents(argument)) if isinstance(argument, cst.Arg) else None
    return isinstance(call, cst.Call) and get_name(call.func) in names
