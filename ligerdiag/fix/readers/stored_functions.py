"""Finds the places that read a function from a dict, a NamedTuple, a dataclass or another object that stores it.

The function is followed only if nothing else can be read there: all that the project puts under that key or into that
field is the function, and no other class has a field or method of that name.
"""

import re
from collections.abc import Iterator, Sequence

import libcst as cst

from ligerdiag.fix.call_site import Project
from ligerdiag.fix.definitions import find_definition
from ligerdiag.fix.readers.imported_names import list_imported_uses, list_module_names
from ligerdiag.fix.readers.name_scopes import SourceVariable, find_variable
from ligerdiag.fix.source_file import CannotFixError, SourceFile, get_name

type Place = tuple[SourceFile, cst.CSTNode]

_REPLACING = frozenset({"replace", "_replace"})
"""Functions that return an object with other values in some of its fields."""


def list_stored_reads(project: Project, file: SourceFile, node: cst.CSTNode) -> list[Place] | None:
    """Returns the expressions that read a function from the dict or object in which `node` stores it.

    `node` is an expression for the function: the value of a dict's key, or an argument of a class of the project. Returns
    None if the reads cannot be followed.
    """
    parent = next(file.list_parents(node))
    outer = next(file.list_parents(parent))
    if isinstance(parent, cst.DictElement) and parent.value is node and isinstance(outer, cst.Dict):
        return _list_entry_reads(project, file, outer, _evaluate_text(parent.key))
    if not isinstance(parent, cst.Arg) or not isinstance(outer, cst.Call) or parent.star:
        return None
    if get_name(outer.func) == "dict" and parent.keyword is not None:
        return _list_entry_reads(project, file, outer, parent.keyword.value)
    return _list_field_reads(project, file, node, outer, parent)


def _evaluate_text(node: cst.BaseExpression) -> str:
    value = node.evaluated_value if isinstance(node, cst.SimpleString) else ""
    return value if isinstance(value, str) else ""


def _list_entry_reads(project: Project, file: SourceFile, made: cst.BaseExpression, key: str) -> list[Place] | None:
    """Returns the places that read the key of a dict: `ops["norm"]`. None if the dict is used in any other way, such as with
    a key that is computed.
    """
    assign = next(file.list_parents(made))
    if not key or not isinstance(assign, cst.Assign | cst.AnnAssign):
        return None
    targets = [assign.target] if isinstance(assign, cst.AnnAssign) else [one.target for one in assign.targets]
    if len(targets) != 1 or not isinstance(targets[0], cst.Name):
        return None
    variable = find_variable(file, targets[0], targets[0].value)
    if len(variable.bindings) != 1 or isinstance(variable.scope, cst.ClassDef):
        return None
    found: list[Place] = []
    for where, read in _list_reads(project, file, variable):
        whole = next(where.list_parents(read))
        if not isinstance(whole, cst.Subscript) or whole.value is not read or len(whole.slice) != 1:
            return None
        index = whole.slice[0].slice
        text = _evaluate_text(index.value) if isinstance(index, cst.Index) else ""
        if not text:
            return None
        if text == key:
            found.append((where, whole))
    return None if any(_is_assigned(*one) for one in found) else found


def _list_reads(project: Project, file: SourceFile, variable: SourceVariable) -> Iterator[Place]:
    yield from ((file, one) for one in variable.reads)
    if variable.is_global:
        yield from list_imported_uses(project, file, variable.name, set())


def _is_assigned(file: SourceFile, node: cst.CSTNode) -> bool:
    return isinstance(next(file.list_parents(node)), cst.AssignTarget | cst.AugAssign | cst.Del)


def _list_field_reads(
    project: Project, file: SourceFile, node: cst.CSTNode, made: cst.Call, argument: cst.Arg
) -> list[Place] | None:
    """Returns the places that read a field to which a class of the project assigns an argument: `block.norm`."""
    owner = find_definition(project, file, get_name(made.func), cst.ClassDef)
    function = find_definition(project, file, get_name(node), cst.FunctionDef)
    if owner is None or function is None:
        return None
    home, definition = owner
    names = _list_fields(definition)
    place = next(number for number, one in enumerate(made.args) if one is argument)
    parameter = argument.keyword.value if argument.keyword is not None else [*names, *[""] * len(made.args)][place]
    field = names.get(parameter, "")
    if not field:
        return None
    position = [*names].index(parameter)
    for where, read in _list_reads(project, home, find_variable(home, definition.name, definition.name.value)):
        call = next(where.list_parents(read))
        if isinstance(call, cst.Annotation | cst.ImportAlias):
            continue
        if not isinstance(call, cst.Call) or call.func is not read or any(one.star for one in call.args):
            return None
        given = _find_given(call, parameter, position)
        known = None if given is None else find_definition(project, where, get_name(given), cst.FunctionDef)
        if known is None or known[1] is not function[1]:
            return None
    return _list_attribute_reads(project, home, definition, field)


def _find_given(call: cst.Call, parameter: str, position: int) -> cst.BaseExpression | None:
    named = [one.value for one in call.args if one.keyword is not None and one.keyword.value == parameter]
    given = [one.value for one in call.args if one.keyword is None]
    return named[0] if named else given[position] if position < len(given) else None


def _list_fields(owner: cst.ClassDef) -> dict[str, str]:
    """Returns the field that each parameter of a class sets, in the order of the parameters: of a NamedTuple or dataclass,
    the annotated names; of any other class, those that `__init__` assigns, as in `self.norm = norm`, and "" for the other
    parameters.
    """
    own = [one for one in owner.body.body if isinstance(one, cst.FunctionDef) and one.name.value == "__init__"]
    if own:
        parameters = own[0].params
        names = [one.name.value for one in (*parameters.posonly_params, *parameters.params, *parameters.kwonly_params)]
        fields = dict.fromkeys(names[1:], "")
        for line in own[0].body.body:
            for one in line.body if isinstance(line, cst.SimpleStatementLine) else ():
                match one:
                    case cst.Assign(
                        targets=[cst.AssignTarget(cst.Attribute(value=cst.Name("self"), attr=cst.Name(field)))],
                        value=cst.Name(value),
                    ) if value in fields:
                        fields[value] = field
                    case _:
                        pass
        return fields
    if owner.bases and not all(get_name(one.value) in ("NamedTuple", "Protocol") for one in owner.bases):
        return {}  # the base class may have fields of its own
    return {
        one.target.value: one.target.value
        for line in owner.body.body
        if isinstance(line, cst.SimpleStatementLine)
        for one in line.body
        if isinstance(one, cst.AnnAssign) and isinstance(one.target, cst.Name)
    }


def _list_attribute_reads(project: Project, home: SourceFile, owner: cst.ClassDef, field: str) -> list[Place] | None:
    """Returns the attributes of this name in the project; None if one of them may belong to another class, or is assigned
    elsewhere than in the class's `__init__`.
    """
    pattern = re.compile(rf"\b{re.escape(field)}\b")
    found: list[Place] = []
    for path, text in project.read_texts():
        if not pattern.search(text):
            continue
        try:
            file = project.load(str(path))
        except CannotFixError:
            return None
        if any(one is not owner and _has_member(file, one, field) for one in file.find(cst.ClassDef)):
            return None
        if any(
            one.keyword is not None and one.keyword.value == field and get_name(call.func) in _REPLACING
            for call in file.find(cst.Call)
            for one in call.args
        ):
            return None
        modules = _list_foreign(project, file)
        for one in file.find(cst.Attribute):
            if one.attr.value != field or file.module.code_for_node(one.value).partition(".")[0] in modules:
                continue
            if not _is_assigned(file, one):
                found.append((file, one))
            elif file is not home or not _is_in_init(file, one, owner):
                return None
    return found


def _has_member(file: SourceFile, owner: cst.ClassDef, name: str) -> bool:
    """Returns whether a class has a method or a field of this name, or assigns one to `self`."""
    for one in file.find(cst.FunctionDef, owner.body):
        if one.name.value == name:
            return True
    if name in _list_fields(owner).values():
        return True
    targets = (one.target for one in file.find(cst.AssignTarget, owner.body))
    return any(get_name(one) == name and isinstance(one, cst.Attribute | cst.Name) for one in targets)


def _is_in_init(file: SourceFile, node: cst.CSTNode, owner: cst.ClassDef) -> bool:
    function = file.find_function(node)
    around: Sequence[cst.CSTNode] = [] if function is None else [*file.list_parents(function)]
    return function is not None and function.name.value == "__init__" and any(one is owner for one in around)


def _list_foreign(project: Project, file: SourceFile) -> set[str]:
    """Returns the names by which a file reaches modules, such as `jnp`, whose attributes are no fields of objects."""
    found = list_module_names(file)
    for statement in file.find(cst.ImportFrom):
        if statement.relative or statement.module is None or isinstance(statement.names, cst.ImportStar):
            continue
        root = file.module.code_for_node(statement.module).partition(".")[0]
        if not (project.root / root).exists() and not (project.root / f"{root}.py").exists():
            found |= {one.evaluated_alias or one.evaluated_name for one in statement.names}
    return found
