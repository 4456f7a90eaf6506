"""Finds the uses of a method on objects of its class and of derived classes, also through `self` and `super()`.

The class of an object is known if the object is made by calling the class, or if its variable is annotated with the class.
An attribute with the method's name on any other object may be the method; such places are listed separately.
"""

import re
from collections.abc import Iterator

import libcst as cst

from ligerdiag.fix.call_site import Project
from ligerdiag.fix.definitions import find_definition
from ligerdiag.fix.readers.function_uses import Caller, describe_use
from ligerdiag.fix.readers.imported_names import list_imported_uses
from ligerdiag.fix.readers.name_scopes import find_variable
from ligerdiag.fix.source_file import CannotFixError, SourceFile, get_name

_CALL = "__call__"
_MOST_BASES = 8

type Class = tuple[SourceFile, cst.ClassDef]


def find_override(project: Project, home: SourceFile, function: cst.FunctionDef) -> Class | None:
    """Returns a class of the project that overrides the method, or whose method it overrides.

    This is a base class of the method's class, or a class derived from it, that defines a method of the same name. None
    if there is none.
    """
    owner = home.find_class(function)
    if owner is None:
        return None
    for file, one in [*_list_family(project, home, owner)[1:], *_list_bases(project, home, owner)]:
        if _defines(one, function.name.value):
            return file, one
    return None


def _defines(owner: cst.ClassDef, name: str) -> bool:
    return any(isinstance(one, cst.FunctionDef) and one.name.value == name for one in owner.body.body)


def _list_bases(project: Project, file: SourceFile, owner: cst.ClassDef) -> Iterator[Class]:
    pending: list[Class] = [(file, owner)]
    for _ in range(_MOST_BASES):
        if not pending:
            return
        where, one = pending.pop()
        for base in one.bases:
            found = find_definition(project, where, get_name(base.value), cst.ClassDef)
            if found is not None:
                pending.append(found)
                yield found


def _list_family(project: Project, home: SourceFile, owner: cst.ClassDef) -> list[Class]:
    """Returns a class and those of the project that derive from it, directly or not."""
    family: list[Class] = [(home, owner)]
    for file, one in family:  # which grows
        for user in project.find_users(one.name.value, file):
            names = _list_names(project, user, (file, one))
            for other in user.find(cst.ClassDef):
                bases = {get_name(base.value) for base in other.bases}
                if bases & names and not any(other is known for _, known in family):
                    family.append((user, other))
    return family


def _list_names(project: Project, file: SourceFile, one: Class) -> set[str]:
    """Returns the names that a file has for a class."""
    home, owner = one
    names = {owner.name.value}
    if file is not home:
        for statement in file.find(cst.ImportFrom):
            if not isinstance(statement.names, cst.ImportStar):
                names |= {
                    alias.evaluated_alias or alias.evaluated_name
                    for alias in statement.names
                    if alias.evaluated_name == owner.name.value
                }
    return names


def list_method_callers(
    project: Project, home: SourceFile, owner: cst.ClassDef, method: cst.FunctionDef
) -> Iterator[Caller]:
    """Yields each use of a method on objects that are known to be of its class. A use may be yielded several times."""
    name = method.name.value
    first = 0 if any(get_name(one.decorator) == "staticmethod" for one in method.decorators) else 1
    seen = set[cst.CSTNode]()
    for file, classes, objects in _list_places(project, home, owner):
        for one in file.find(cst.Attribute):
            if one.attr.value != name:
                continue
            if _is_class(one.value, classes):
                yield from describe_use(project, file, one, seen)
            elif _is_object(file, one, classes, objects):
                yield from describe_use(project, file, one, seen, first)
        if name == _CALL:
            for node in _list_values(file, classes, objects):
                yield from describe_use(project, file, node, seen, first)


def _list_places(
    project: Project, home: SourceFile, owner: cst.ClassDef
) -> list[tuple[SourceFile, set[str], set[str]]]:
    """Returns (file, names of the class and of those that derive from it, texts of known objects) for each file that has
    any of them.
    """
    classes: dict[SourceFile, set[str]] = {}
    for file, one in _list_family(project, home, owner):
        for user in project.find_users(one.name.value, file):
            classes.setdefault(user, set()).update(_list_names(project, user, (file, one)))
    objects = {file: _list_instances(file, names) for file, names in classes.items()}
    for file in [*objects]:
        for text in sorted(objects[file]):
            if text.isidentifier() and text != "self":
                for other, node in list_imported_uses(project, file, text, set()):
                    objects.setdefault(other, set()).add(other.module.code_for_node(node))
    return [(file, classes.get(file, set()), texts) for file, texts in objects.items()]


def _is_class(value: cst.BaseExpression, classes: set[str]) -> bool:
    return get_name(value) in classes


def _is_made(value: cst.BaseExpression, classes: set[str]) -> bool:
    return isinstance(value, cst.Call) and get_name(value.func) in classes


def _is_object(file: SourceFile, node: cst.Attribute, classes: set[str], objects: set[str]) -> bool:
    receiver = file.module.code_for_node(node.value)
    if receiver in objects or _is_made(node.value, classes):
        return True
    inner = next((one for one in file.list_parents(node) if isinstance(one, cst.ClassDef)), None)
    return inner is not None and inner.name.value in classes and (receiver in ("self", "cls") or _is_super(node.value))


def _is_self(file: SourceFile, node: cst.Name | cst.Attribute, classes: set[str]) -> bool:
    """Returns whether an expression is `self` in one of the classes."""
    if not isinstance(node, cst.Name) or node.value != "self":
        return False
    inner = next((one for one in file.list_parents(node) if isinstance(one, cst.ClassDef)), None)
    return inner is not None and inner.name.value in classes


def _is_super(value: cst.BaseExpression) -> bool:
    return isinstance(value, cst.Call) and get_name(value.func) == "super"


def _list_values(file: SourceFile, classes: set[str], objects: set[str]) -> Iterator[cst.CSTNode]:
    """Yields the expressions whose value is a known object, apart from those that take an attribute of it."""
    for kind in (cst.Name, cst.Attribute, cst.Call):
        for one in file.find(kind):
            if isinstance(one, cst.Call):
                parent = next(file.list_parents(one))
                if not _is_made(one, classes) or isinstance(parent, cst.Assign | cst.AnnAssign | cst.Expr):
                    continue
            elif not _is_self(file, one, classes) and not (
                file.module.code_for_node(one) in objects and _may_be_object(file, one, classes)
            ):
                continue
            if _is_value(file, one):
                yield one


def _may_be_object(file: SourceFile, name: cst.Name | cst.Attribute, classes: set[str]) -> bool:
    """Returns whether a variable gets an object of one of the classes in its own scope, or comes from another module; of an
    attribute, that is unknown.
    """
    if isinstance(name, cst.Attribute):
        return True
    bindings = find_variable(file, name, name.value).bindings
    return not bindings or any(_gets_object(file, one, classes) for one in bindings)


def _gets_object(file: SourceFile, binding: cst.Name, classes: set[str]) -> bool:
    for parent in file.list_parents(binding):
        match parent:
            case cst.ImportAlias():
                return True
            case cst.Assign(value=value):
                return _is_made(value, classes)
            case cst.AnnAssign(annotation=annotation, value=value):
                return _is_class(annotation.annotation, classes) or (value is not None and _is_made(value, classes))
            case cst.Param(annotation=annotation):
                return annotation is not None and _is_class(annotation.annotation, classes)
            case cst.BaseStatement():
                return False
            case _:
                pass
    return False


def _is_value(file: SourceFile, node: cst.CSTNode) -> bool:
    """Returns whether an expression is read as a whole."""
    parent = next(file.list_parents(node))
    match parent:
        case cst.Attribute() | cst.ImportAlias() | cst.AsName() | cst.ImportFrom() | cst.AssignTarget() | cst.Del():
            return False
        case cst.AnnAssign(target=part) | cst.Arg(keyword=part) | cst.Param(name=part) if part is node:
            return False
        case cst.FunctionDef() | cst.ClassDef() | cst.NameItem():
            return False
        case _:
            return True


def _list_instances(file: SourceFile, classes: set[str]) -> set[str]:
    """Returns the texts of the variables and attributes that get an object of one of these classes."""
    found: set[str] = set()
    for one in file.find(cst.Assign):
        if _is_made(one.value, classes):
            found |= {file.module.code_for_node(target.target) for target in one.targets}
    for one in file.find(cst.AnnAssign):
        annotated = _is_class(one.annotation.annotation, classes)
        if annotated or (one.value is not None and _is_made(one.value, classes)):
            text = file.module.code_for_node(one.target)
            is_field = isinstance(next(_list_blocks(file, one), None), cst.ClassDef)
            found |= {text, f"self.{text}"} if is_field else {text}
    for one in file.find(cst.Param):
        if one.annotation is not None and _is_class(one.annotation.annotation, classes):
            found.add(one.name.value)
    return found


def _list_blocks(file: SourceFile, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    return (one for one in file.list_parents(node) if isinstance(one, cst.ClassDef | cst.FunctionDef | cst.Module))


def list_unknown_receivers(
    project: Project, home: SourceFile, owner: cst.ClassDef, method: cst.FunctionDef
) -> Iterator[str]:
    """Yields the places that may use the method on an object whose class is unknown.

    These are places with an attribute of the method's name. A call of an object does not name `__call__`. So for
    `__call__`, the places are calls of an attribute that holds an object of the class elsewhere in the project.
    """
    name = method.name.value
    known = {file: (classes, objects) for file, classes, objects in _list_places(project, home, owner)}
    names = {name}
    if name == _CALL:
        texts = {one for _, objects in known.values() for one in objects}
        names |= {one.rpartition(".")[2] for one in texts if one.isidentifier() or one.startswith("self.")}
    pattern = re.compile(rf"\.(?:{'|'.join(map(re.escape, sorted(names)))})\b")
    for path, text in project.read_texts():
        if not pattern.search(text):
            continue
        try:
            file = project.load(str(path))
        except CannotFixError as error:
            yield str(error)
            continue
        classes, objects = known.get(file, (set[str](), set[str]()))
        modules = {
            (one.evaluated_alias or one.evaluated_name).partition(".")[0]
            for statement in file.find(cst.Import)
            for one in statement.names
        }
        others = _list_others(file, classes)
        for one in file.find(cst.Attribute):
            if one.attr.value not in names or isinstance(next(file.list_parents(one)), cst.AssignTarget):
                continue
            receiver = file.module.code_for_node(one.value)
            if receiver.partition(".")[0] in modules or receiver in others or isinstance(one.value, cst.BaseString):
                continue
            if one.attr.value != name:  # an attribute that may hold an object to call
                parent = next(file.list_parents(one))
                is_known = file.module.code_for_node(one) in objects
                if is_known or not (isinstance(parent, cst.Call) and parent.func is one):
                    continue
            elif (
                _is_class(one.value, classes)
                or _is_object(file, one, classes, objects)
                or _is_own_method(file, one, receiver, name)
            ):
                continue
            yield f"`{file.module.code_for_node(one)}`{file.render_place(one)}"


def _list_others(file: SourceFile, classes: set[str]) -> set[str]:
    """Returns the texts of the variables that only ever get objects of other classes."""
    found, mixed = set[str](), set[str]()
    for one in file.find(cst.Assign):
        made = get_name(one.value.func) if isinstance(one.value, cst.Call) else ""
        texts = {file.module.code_for_node(target.target) for target in one.targets}
        if made[:1].isupper() and made not in classes:
            found |= texts
        else:
            mixed |= texts
    return found - mixed


def _is_own_method(file: SourceFile, node: cst.Attribute, receiver: str, name: str) -> bool:
    """Returns whether a class calls its own method of this name by `self`, and has no other."""
    inner = next((one for one in file.list_parents(node) if isinstance(one, cst.ClassDef)), None)
    return inner is not None and receiver in ("self", "cls") and _defines(inner, name)
