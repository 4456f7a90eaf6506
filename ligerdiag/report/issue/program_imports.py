"""Finds the packages that a program imports, and whether it needs each only at module level or also in the functions that it
runs.
"""

import ast


def uses_in_functions(text: str, package: str) -> bool:
    """Returns whether a function or class of the program uses a name that it imports from the package.

    Returns True if the text is not valid Python.
    """
    try:
        module = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return True
    names: set[str] = set()
    for statement in module.body:
        match statement:
            case ast.ImportFrom(module=str(source)) if _is_in(source, package):
                names |= {one.asname or one.name for one in statement.names}
            case ast.Import():
                names |= {
                    one.asname or one.name.partition(".")[0] for one in statement.names if _is_in(one.name, package)
                }
            case _:
                pass
    definitions = [one for one in module.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)]
    return any(_mentions(one, names, package) for one in definitions)


def list_imports(text: str) -> tuple[str, ...]:
    """Returns the names of the packages and modules that a program imports anywhere, without their submodules.

    A relative import keeps its leading dots, such as `.losses`. Empty if the text is not valid Python.
    """
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    found: list[str] = []
    for node in nodes:
        match node:
            case ast.Import(names=names):
                found += [one.name for one in names]
            case ast.ImportFrom(module=str(module), level=level):
                found.append("." * level + module)
            case ast.ImportFrom(names=names, level=level):
                found += ["." * level + one.name for one in names]
            case _:
                pass
    return tuple(dict.fromkeys(_drop_submodules(name) for name in found))


def _drop_submodules(name: str) -> str:
    own = name.lstrip(".")
    return name[: len(name) - len(own)] + own.partition(".")[0]


def _mentions(definition: ast.AST, names: set[str], package: str) -> bool:
    for node in ast.walk(definition):
        match node:
            case ast.Name(id=name) if name in names:
                return True
            case ast.ImportFrom(module=str(source)) if _is_in(source, package):
                return True
            case ast.Import() if any(_is_in(one.name, package) for one in node.names):
                return True
            case _:
                pass
    return False


def _is_in(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")
