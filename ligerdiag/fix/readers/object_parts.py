"""Says whether the source shows that a part of an object, such as `self.r` or `state["r"]`, can be assigned."""

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from ligerdiag.fix.call_site import Project
from ligerdiag.fix.definitions import find_definition
from ligerdiag.fix.readers.array_holders import find_container, is_self
from ligerdiag.fix.readers.name_scopes import find_variable
from ligerdiag.fix.source_file import SourceFile, get_name

_MOST_BASES = 8
_PLAIN_BASES = frozenset({"object", "ABC", "Protocol", "Generic"})
"""Base classes whose objects can be assigned to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartKind:
    """The way in which new contents can be assigned to a part of an object, if there is one."""

    is_assigned: bool = False
    """Whether the part can be assigned."""
    replacing: str = ""
    """For an object that cannot be changed: source of the function that returns the object with other values in some of its
    fields, such as `state._replace` or `dataclasses.replace`; empty if there is none.
    """
    reason: str = ""
    """A clause that says why the part cannot be assigned; empty if it can."""


def find_part_kind(project: Project, file: SourceFile, value: cst.Attribute | cst.Subscript) -> PartKind:
    """Returns the way in which new contents can be assigned to the part `value` of an object, such as `self.r`."""
    text, whole = file.module.code_for_node(value), file.module.code_for_node(value.value)
    if isinstance(value, cst.Subscript):
        kind = find_container(file, value)
        if kind == "tuple":
            return PartKind(reason=f"`{whole}` is a tuple, whose elements cannot be assigned")
        if kind:
            return PartKind(is_assigned=True)
        return PartKind(reason=f"the source does not show whether `{text}` can be assigned")
    for where, owner in _list_classes(project, file, value.value):
        bases = {get_name(base.value) for base in owner.bases}
        if "NamedTuple" in bases:
            return _replace_whole(value, f"{whole}._replace", f"`{owner.name.value}` is a NamedTuple")
        if any(_is_frozen(one) for one in owner.decorators):
            return _replace_whole(value, _find_replace(file), f"`{owner.name.value}` is a frozen dataclass")
        unknown = [one for one in sorted(bases - _PLAIN_BASES) if one and not _is_of_project(project, where, one)]
        if unknown:
            return PartKind(reason=f"the source does not show whether an object of `{unknown[0]}` can be changed")
    if next(_list_classes(project, file, value.value), None) is None:
        return PartKind(reason=f"the source does not show whether `{text}` can be assigned")
    return PartKind(is_assigned=True)


def _replace_whole(value: cst.Attribute, function: str, reason: str) -> PartKind:
    is_plain = isinstance(value.value, cst.Name) and not is_self(value.value)
    return PartKind(replacing=function if is_plain else "", reason=f"{reason}, whose fields cannot be assigned")


def _find_replace(file: SourceFile) -> str:
    """Returns the expression by which a file reaches `dataclasses.replace`; empty if it imports none."""
    for statement in file.find(cst.ImportFrom):
        if isinstance(statement.names, cst.ImportStar) or statement.module is None:
            continue
        for one in statement.names:
            if get_name(statement.module) == "dataclasses" and one.evaluated_name == "replace":
                return one.evaluated_alias or "replace"
    for statement in file.find(cst.Import):
        for one in statement.names:
            if one.evaluated_name == "dataclasses":
                return f"{one.evaluated_alias or 'dataclasses'}.replace"
    return ""


def _is_frozen(decorator: cst.Decorator) -> bool:
    call = decorator.decorator
    return isinstance(call, cst.Call) and any(
        one.keyword is not None and one.keyword.value == "frozen" and get_name(one.value) == "True" for one in call.args
    )


def _is_of_project(project: Project, file: SourceFile, name: str) -> bool:
    return find_definition(project, file, name, cst.ClassDef) is not None


def _list_classes(
    project: Project, file: SourceFile, value: cst.BaseExpression
) -> Iterator[tuple[SourceFile, cst.ClassDef]]:
    """Yields the class of an expression's object and its base classes in the project, as far as the source shows them."""
    if isinstance(value, cst.Name) and is_self(value):
        own = next((one for one in file.list_parents(value) if isinstance(one, cst.ClassDef)), None)
        pending = [] if own is None else [(file, own)]
    else:
        found = find_definition(project, file, _find_class_name(file, value), cst.ClassDef)
        pending = [] if found is None else [found]
    for _ in range(_MOST_BASES):
        if not pending:
            return
        where, owner = pending.pop()
        yield where, owner
        known = [find_definition(project, where, get_name(one.value), cst.ClassDef) for one in owner.bases]
        pending += [one for one in known if one is not None]


def _find_class_name(file: SourceFile, value: cst.BaseExpression) -> str:
    """Returns the name of the only class of which a variable or attribute gets objects; empty if none is known."""
    names: set[str] = set()
    if isinstance(value, cst.Name):
        for binding in find_variable(file, value, value.value).bindings:
            if not _is_replaced(file, binding):
                names.add(_name_assigned(file, binding))
    elif isinstance(value, cst.Attribute):
        text = file.module.code_for_node(value)
        for one in file.find(cst.AssignTarget):
            if file.module.code_for_node(one.target) == text:
                names.add(_name_assigned(file, one.target))
        for one in file.find(cst.AnnAssign):
            target = file.module.code_for_node(one.target)
            if text in (target, f"self.{target}"):
                names.add(get_name(one.annotation.annotation))
    return names.pop() if len(names) == 1 else ""


def _is_replaced(file: SourceFile, target: cst.Name) -> bool:
    """Returns whether a variable gets an object of the class that it had: `s = s._replace(y=z)`, `s = replace(s, y=z)`."""
    for parent in file.list_parents(target):
        match parent:
            case cst.Assign(value=cst.Call(func=cst.Attribute(value=whole, attr=cst.Name("_replace")))):
                return get_name(whole) == target.value
            case cst.Assign(value=cst.Call(func=function, args=[first, *_])) if get_name(function) == "replace":
                return isinstance(first.value, cst.Name) and first.value.value == target.value
            case cst.BaseStatement():
                return False
            case _:
                pass
    return False


def _name_assigned(file: SourceFile, target: cst.CSTNode) -> str:
    """Returns the name of the class whose object a target gets; empty if it is unknown."""
    for parent in file.list_parents(target):
        match parent:
            case cst.Param(annotation=annotation) | cst.AnnAssign(annotation=annotation):
                return "" if annotation is None else get_name(annotation.annotation)
            case cst.Assign(value=cst.Call(func=function)) if isinstance(
                next(file.list_parents(target)), cst.AssignTarget
            ):
                name = get_name(function)
                return name if name[:1].isupper() else ""
            case cst.Assign(value=cst.Name() as value) if isinstance(
                next(file.list_parents(target)), cst.AssignTarget
            ) and (not isinstance(target, cst.Name) or value.value != target.value):
                return _find_class_name(file, value)
            case cst.BaseStatement():
                return ""
            case _:
                pass
    return ""
