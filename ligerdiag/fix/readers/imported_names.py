"""Finds the expressions by which the other files of the project refer to a name of a module."""

from collections.abc import Iterator

import libcst as cst

from ligerdiag.fix.call_site import Project
from ligerdiag.fix.readers.name_scopes import find_variable
from ligerdiag.fix.source_file import SourceFile, get_name


def list_imported_uses(
    project: Project, home: SourceFile, name: str, seen: set[tuple[SourceFile, str]]
) -> Iterator[tuple[SourceFile, cst.CSTNode]]:
    """Yields a (file, expression) pair for each expression outside of the module `home` that refers to its name `name`.

    seen: the names that have been followed already. The function adds those that it follows.
    """
    if (home, name) in seen:
        return
    seen.add((home, name))
    modules = project.find_modules(name, home)
    for file in project.find_users(name, home):
        if file is home:
            continue
        bound = [*_list_bound(file, name, modules)]
        for node, alias in bound:
            for read in find_variable(file, node, alias).reads:
                yield file, read
        paths, roots = _list_paths(file, modules)
        for one in file.find(cst.Attribute):
            if one.attr.value != name:
                continue
            text = file.module.code_for_node(one.value)
            if text in paths or (get_name(one.value) in modules and text.partition(".")[0] in roots):
                yield file, one
        for alias in {alias for _, alias in bound} - {name}:  # which a third file may import
            yield from list_imported_uses(project, file, alias, seen)


def _list_bound(file: SourceFile, name: str, modules: frozenset[str]) -> Iterator[tuple[cst.CSTNode, str]]:
    """Yields a node in the scope of each import of a name, and the name that the file gives it."""
    for statement in file.find(cst.ImportFrom):
        is_home = statement.module is None or get_name(statement.module) in modules
        if isinstance(statement.names, cst.ImportStar):
            if is_home:
                yield statement, name
            continue
        for alias in statement.names:
            if alias.evaluated_name == name and is_home:
                yield alias, alias.evaluated_alias or name


def _list_paths(file: SourceFile, modules: frozenset[str]) -> tuple[set[str], set[str]]:
    """Returns the texts by which a file reaches modules, and the first names of all that it imports."""
    paths, roots = set[str](), set[str]()
    for kind in (cst.Import, cst.ImportFrom):
        for statement in file.find(kind):
            if isinstance(statement.names, cst.ImportStar):
                continue
            for one in statement.names:
                known = one.evaluated_alias or one.evaluated_name
                roots.add(known.partition(".")[0])
                if get_name(one.name) in modules:
                    paths.add(known)
    return paths, roots


def list_module_names(file: SourceFile) -> set[str]:
    """Returns the names that the `import` statements of a file bind to modules, such as `jnp`."""
    return {
        (one.evaluated_alias or one.evaluated_name).partition(".")[0]
        for statement in file.find(cst.Import)
        for one in statement.names
    }
