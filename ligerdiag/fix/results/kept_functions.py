"""Keeps a function for those who use it as a value, and adds a new function that also returns the new contents.

The function's body moves into `NAME_in_place`, which returns more. `NAME` calls it and returns the former results.
Callers that read the overwritten array call `NAME_in_place`. All others call `NAME`, as before.
"""

from collections.abc import Callable, Sequence

import libcst as cst

from ligerdiag.fix.call_arguments import append_alias
from ligerdiag.fix.call_site import Project
from ligerdiag.fix.definitions import find_home, load_module, locate_import
from ligerdiag.fix.readers.callers import name_function
from ligerdiag.fix.results.bound_results import Returned
from ligerdiag.fix.source_file import CannotFixError, SourceFile, get_name
from ligerdiag.text import join_words

_CALL = "__call__"


def keep_function(
    project: Project, file: SourceFile, function: cst.FunctionDef, returned: Returned, parameters: Sequence[str]
) -> str:
    """Moves a function's body into a new function, which the old one calls. Returns the name of the new function.

    returned: the form of the function's results. parameters: those whose new contents the new function returns as well.
    Call it when all other changes of the function are made.
    """
    name = function.name.value
    users = [file, *project.find_users(name, file)]
    used = {one for user in users for one in user.list_names()}
    wish = "in_place" if name == _CALL else f"{name}_in_place"
    new = next(one for one in _number(wish) if one not in used)
    wrapper = _make_wrapper(file, function, new, returned, parameters)

    def split(node: cst.CSTNode) -> cst.FlattenSentinel[cst.BaseStatement]:
        assert isinstance(node, cst.FunctionDef)
        return cst.FlattenSentinel([node.with_changes(name=cst.Name(new)), wrapper])

    file.change(function, split)
    return new


def _number(wish: str) -> Sequence[str]:
    return [wish, *(f"{wish}_{number}" for number in range(2, 100))]


def _make_wrapper(
    file: SourceFile, function: cst.FunctionDef, new: str, returned: Returned, parameters: Sequence[str]
) -> cst.FunctionDef:
    owner = file.find_class(function)
    parts = function.params
    own = [one.name.value for one in (*parts.posonly_params, *parts.params)]
    decorators = {get_name(one.decorator) for one in function.decorators}
    callee = new
    if owner is not None:
        is_static = "staticmethod" in decorators
        callee = f"{owner.name.value if is_static else own[0]}.{new}"
        own = own if is_static else own[1:]
    given = [*own]
    if isinstance(parts.star_arg, cst.Param):
        given.append(f"*{parts.star_arg.name.value}")
    given += [f"{one.name.value}={one.name.value}" for one in parts.kwonly_params]
    if parts.star_kwarg is not None:
        given.append(f"**{parts.star_kwarg.name.value}")
    former = "0" if returned is Returned.ONE else f":-{len(parameters)}"
    lines = [
        f'"""Like `{new}`, but leaves {join_words([f"`{one}`" for one in parameters])} unchanged."""',
        f"return {callee}({', '.join(given)})[{former}]",
    ]
    is_nested = file.find_function(function) is not None or owner is not None
    return function.with_changes(
        body=cst.IndentedBlock(body=[cst.parse_statement(one) for one in lines]),
        leading_lines=[cst.EmptyLine(indent=False)] * (1 if is_nested else 2),
        lines_after_decorators=(),
    )


def refer_to(project: Project, home: SourceFile, function: cst.FunctionDef, new: str) -> Callable[..., None]:
    """Returns a function `(file, node)` that replaces an expression for `function` by one for the new function.

    `new`: the name of the new function.
    """
    name = function.name.value
    is_method = home.find_class(function) is not None
    imported: set[tuple[SourceFile, cst.CSTNode]] = set()

    def refer(file: SourceFile, node: cst.CSTNode) -> None:
        if isinstance(node, cst.Attribute) and not is_method:
            module = _find_module(project, file, file.module.code_for_node(node.value))
            if module is None:
                raise _refuse(home, function, file, node)
            add(module, node.attr.value, node, file)
            file.change(node.attr, lambda _: cst.Name(new))
        elif isinstance(node, cst.Attribute) and node.attr.value == name:
            file.change(node.attr, lambda _: cst.Name(new))
        elif is_method:  # `norm(x)` for `norm.__call__(x)`
            if name != _CALL or not isinstance(node, cst.BaseExpression):
                raise _refuse(home, function, file, node)
            file.change(node, lambda old: cst.Attribute(value=_as_expression(old), attr=cst.Name(new)))
        elif isinstance(node, cst.Name):
            if file is not home:
                add(file, node.value, node, file)
            file.change(node, lambda _: cst.Name(new))
        else:
            raise _refuse(home, function, file, node)

    def add(file: SourceFile, known: str, node: cst.CSTNode, user: SourceFile) -> None:
        """Makes a file that imports the function by the name `known` also import the new function."""
        if file is home:
            return
        origin, original = find_home(project, file, known)
        statement = next((one for one in file.find(cst.ImportFrom) if _binds(one, known)), None)
        if origin is None or origin is file or statement is None:
            raise _refuse(home, function, user, node)
        if (file, statement) not in imported:
            imported.add((file, statement))
            add(origin, original, node, user)
            file.change(statement, lambda old: append_alias(_as_import(old), new))

    return refer


def _refuse(home: SourceFile, function: cst.FunctionDef, file: SourceFile, node: cst.CSTNode) -> CannotFixError:
    name = name_function(home, function)
    return CannotFixError(f"`{name}` is reached by a name that cannot be followed{file.render_place(node)}")


def _as_expression(node: cst.CSTNode) -> cst.BaseExpression:
    assert isinstance(node, cst.BaseExpression)
    return node


def _as_import(node: cst.CSTNode) -> cst.ImportFrom:
    assert isinstance(node, cst.ImportFrom)
    return node


def _binds(statement: cst.ImportFrom, name: str) -> bool:
    if isinstance(statement.names, cst.ImportStar):
        return False
    return any((one.evaluated_alias or one.evaluated_name) == name for one in statement.names)


def _find_module(project: Project, file: SourceFile, text: str) -> SourceFile | None:
    """Returns the module of the project to which a file refers by this text."""
    for statement in file.find(cst.Import):
        for one in statement.names:
            if (one.evaluated_alias or one.evaluated_name) == text:
                return load_module(project, project.root, one.evaluated_name)
    for statement in file.find(cst.ImportFrom):
        if isinstance(statement.names, cst.ImportStar) or not _binds(statement, text):
            continue
        folder, dotted = locate_import(project, file, statement)
        name = next(
            one.evaluated_name for one in statement.names if (one.evaluated_alias or one.evaluated_name) == text
        )
        return load_module(project, folder, f"{dotted}.{name}".lstrip("."))
    return None
