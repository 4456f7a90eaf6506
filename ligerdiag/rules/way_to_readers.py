"""Finds the functions that have to return the new contents of an array that a kernel overwrites.

One function calls the kernel, and others read the array. Each function between them has to return the new contents.
"""

import ast
from collections.abc import Sequence

from ligerdiag.model.findings import CallPlace, ReadPlace, SourceLine
from ligerdiag.rules.wording import render_at
from ligerdiag.source_text import parse_source, read_last_name
from ligerdiag.text import join_words

_MOST_PLACES = 3
"""At most this many functions that have to use the new value are named."""
_MOST_FUNCTIONS = 2
"""If more functions would have to return the new value, none is named."""


def find_way_to(call: CallPlace, reads: Sequence[ReadPlace], source_roots: Sequence[str] = ()) -> tuple[list[str], str]:
    """Returns the functions that have to return the overwritten value, innermost first, and a text about its readers.

    The text names the functions that read the value, with their lines. Both results are empty if the function that calls
    the kernel, or one inside of it, contains every read. They are also empty if the reads are in a backward pass, or if
    too many functions lie in between.

    source_roots: folders whose files may be read, to find a function that calls both the kernel's function and a
    reader's; () if none.
    """
    home = call.line
    if home is None or not home.function or call.in_backward:
        return [], ""
    lines = dict.fromkeys(read.line for read in reads if read.line is not None and not read.in_backward)
    calling = {(frame.file, frame.line) for frame in call.callers}
    far = [
        line for line in lines if line.function and not _is_inside(line, home) and (line.file, line.line) not in calling
    ]
    through = [home]
    for frame in call.callers:
        if not frame.function or any(_is_inside(line, frame) for line in far):
            break
        if far and _calls_all(frame, [name_function(line) for line in far], tuple(source_roots)):
            break
        through.append(frame)
    returning = [*dict.fromkeys(name_function(frame) for frame in through)]
    if not far or len(returning) > _MOST_FUNCTIONS:
        return [], ""
    places = [f"`{name_function(line)}`{render_at(line)}" for line in far[:_MOST_PLACES]]
    if len(far) > _MOST_PLACES:
        places.append(f"{len(far) - _MOST_PLACES} more places")
    return returning, join_words(places)


def _calls_all(frame: SourceLine, names: Sequence[str], roots: Sequence[str]) -> bool:
    """Returns whether the function around a line calls functions of all of these names."""
    tree = parse_source(frame.file, roots)
    function = None if tree is None else _find_function(tree, frame.line)
    if function is None:
        return False
    called = {read_last_name(one.func) for one in ast.walk(function) if isinstance(one, ast.Call)}
    return {name.rpartition(".")[2] for name in names} <= called


def _find_function(tree: ast.Module, line: int) -> ast.FunctionDef | None:
    """Returns the innermost function around a line."""
    around = [
        one
        for one in ast.walk(tree)
        if isinstance(one, ast.FunctionDef) and one.lineno <= line <= (one.end_lineno or one.lineno)
    ]
    return max(around, key=lambda one: one.lineno, default=None)


def count_returning(call: CallPlace, names: Sequence[str], through: Sequence[str], roots: Sequence[str]) -> int:
    """Returns how many of the functions `through` return the variables `names` already.

    The functions are counted from the innermost one to the first that does not return them. The variables get the new
    contents.
    """
    frames = [call.line, *call.callers]
    given: list[str | None] = [*names]
    places: list[int] = []
    for number, _ in enumerate(through):
        frame = frames[number] if number < len(frames) else None
        tree = None if frame is None else parse_source(frame.file, tuple(roots))
        function = None if frame is None or tree is None else _find_function(tree, frame.line)
        if frame is None or function is None:
            return number
        if number:
            given = [_find_target(function, frame.line, place) for place in places]
        found = [_find_returned_place(function, name) for name in given]
        if not all(one is not None for one in found):
            return number
        places = [one for one in found if one is not None]
    return len(through)


def _list_returns(function: ast.FunctionDef) -> list[ast.Return]:
    """Returns the `return` statements of a function, without those of functions inside of it."""
    found: list[ast.Return] = []
    pending: list[ast.AST] = [*function.body]
    while pending:
        one = pending.pop()
        if isinstance(one, ast.Return):
            found.append(one)
        elif not isinstance(one, ast.FunctionDef | ast.Lambda | ast.ClassDef | ast.AsyncFunctionDef):
            pending += ast.iter_child_nodes(one)
    return found


def _find_returned_place(function: ast.FunctionDef, name: str | None) -> int | None:
    """Returns the position of a variable among the results of a function, -1 if it is the only result; None if a `return`
    does not have it there.
    """
    places: set[int | None] = set()
    for one in _list_returns(function):
        match one.value:
            case ast.Name(id=own) if own == name:
                places.add(-1)
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                places.add(
                    next((n for n, own in enumerate(elements) if isinstance(own, ast.Name) and own.id == name), None)
                )
            case _:
                places.add(None)
    return places.pop() if len(places) == 1 else None


def _find_target(function: ast.FunctionDef, line: int, place: int) -> str | None:
    """Returns the variable that gets the result at a position of the call in a line; None if the source does not show it."""
    for one in ast.walk(function):
        if (
            isinstance(one, ast.Assign)
            and one.lineno <= line <= (one.end_lineno or one.lineno)
            and len(one.targets) == 1
        ):
            match one.targets[0]:
                case ast.Name(id=name) if place < 0:
                    return name
                case ast.Tuple(elts=elements) if 0 <= place < len(elements):
                    target = elements[place]
                    return target.id if isinstance(target, ast.Name) else None
                case _:
                    return None
    return None


def _is_inside(line: SourceLine, home: SourceLine) -> bool:
    """Returns whether a line is in the function of another line, or in a function that is defined there."""
    return line.file == home.file and (line.function == home.function or line.function.startswith(f"{home.function}."))


def name_function(line: SourceLine) -> str:
    """Returns the name of the innermost function around a line, such as `step` for `outer.<locals>.step`."""
    return line.function.rpartition("<locals>.")[2]
