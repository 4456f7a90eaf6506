"""Makes a function return the new contents of some of its parameters as well: its `return` statements and its annotation."""

from collections.abc import Sequence

import libcst as cst

from ligerdiag.fix.call_arguments import append_element, make_tuple
from ligerdiag.fix.readers.callers import changes_results, name_function
from ligerdiag.fix.results.bound_results import Returned
from ligerdiag.fix.source_file import CannotFixError, SourceFile, get_name

_ARRAYS = frozenset({"Array", "ndarray"})
"""Names of types of arrays that say nothing about a shape."""
_TUPLES = frozenset({"tuple", "Tuple"})


def change_returns(file: SourceFile, function: cst.FunctionDef, parameters: Sequence[str]) -> Returned:
    name, place = name_function(file, function), file.render_place(function)
    if any(changes_results(one) for one in function.decorators):
        raise CannotFixError(f"`{name}` would have to return more, but a decorator may depend on its results{place}")
    if function.asynchronous is not None:
        raise CannotFixError(f"`{name}` would have to return more, but it is a coroutine{place}")
    if any(file.find_function(one) is function for one in file.find(cst.Yield, function)):
        raise CannotFixError(f"`{name}` would have to return more, but it is a generator{place}")
    statements = [one for one in file.find(cst.Return, function) if file.find_function(one) is function]
    if not statements:
        raise CannotFixError(f"`{name}` would have to return an array, but it has no `return`{place}")
    kinds: set[Returned] = set()
    for statement in statements:
        file.require_unchanged(statement)
        if statement.value is None:
            raise CannotFixError(
                f"`{name}` would have to return an array, but a `return` has no value{file.render_place(statement)}"
            )
        is_sequence = isinstance(statement.value, cst.Tuple | cst.List)
        kinds.add(Returned.SEQUENCE if is_sequence else Returned.ONE)
    if len(kinds) > 1:
        raise CannotFixError(
            f"the `return` statements of `{name}` differ: one returns one value, another several{place}"
        )

    def add(node: cst.CSTNode) -> cst.Return:
        assert isinstance(node, cst.Return)
        assert node.value is not None
        if isinstance(node.value, cst.Tuple | cst.List):
            return node.with_changes(value=append_element(node.value, *parameters))
        return node.with_changes(value=make_tuple(node.value, *parameters, parentheses=False))

    for statement in statements:
        file.change(statement, add)
    (kind,) = kinds
    if function.returns is not None:
        returns = extend_return_type(function, parameters, is_sequence=kind is Returned.SEQUENCE)
        file.change(function, lambda node: node.with_changes(returns=returns))
    return kind


def extend_return_type(
    function: cst.FunctionDef, parameters: Sequence[str], *, is_sequence: bool
) -> cst.Annotation | None:
    """Returns the type annotation of a function that returns the new contents of these parameters as well.

    Their type is that of the parameter. If the parameter has none, it is the type of the array that the function returned
    before. Returns None if the function has no annotation, or if it does not say the types.

    is_sequence: whether the function writes out a tuple or list in its `return`.
    """
    if function.returns is None:
        return None
    old = function.returns.annotation
    quote, value = _unquote(old)
    if value is None:
        return None
    types: list[cst.BaseExpression] = []
    is_open = False
    if not is_sequence:
        types.append(value)
    elif isinstance(value, cst.Subscript) and get_name(value.value) in _TUPLES:
        types += [one.slice.value for one in value.slice if isinstance(one.slice, cst.Index)]
        is_open = len(types) == 2 and isinstance(types[1], cst.Ellipsis)
    else:
        return None  # a list, or a name whose meaning is elsewhere
    added = [_find_type(function, name, types) for name in parameters]
    found = [one for one in added if one is not None]
    if len(found) < len(added):
        return None
    if is_open:
        is_same = all(_render_type(one) == _render_type(types[0]) for one in found)
        return function.returns if is_same else None
    if quote:
        found = [inner for one in found if (inner := _unquote(one)[1]) is not None]
        if len(found) < len(added):
            return None
    name = value.value if is_sequence and isinstance(value, cst.Subscript) else cst.Name("tuple")
    text = f"{_render_type(name)}[{', '.join(map(_render_type, [*types, *found]))}]"
    if quote and quote in text:
        return None
    return function.returns.with_changes(annotation=cst.parse_expression(f"{quote}{text}{quote}"))


def _find_type(
    function: cst.FunctionDef, parameter: str, returned: Sequence[cst.BaseExpression]
) -> cst.BaseExpression | None:
    parts = function.params
    every = (*parts.posonly_params, *parts.params, *parts.kwonly_params)
    own = next((one.annotation for one in every if one.name.value == parameter), None)
    if own is not None:
        return own.annotation
    return next((one for one in returned if get_name(one) in _ARRAYS), None)


def _unquote(node: cst.BaseExpression) -> tuple[str, cst.BaseExpression | None]:
    """Returns the quotation mark of a type that is written as a text, and the type; an empty one for any other type, and
    None for a text that is no expression.
    """
    if not isinstance(node, cst.SimpleString):
        return "", None if isinstance(node, cst.ConcatenatedString | cst.FormattedString) else node
    inner = node.raw_value
    if node.prefix or "\\" in inner or "\n" in inner or len(node.quote) > 1:
        return "", None
    try:
        return node.quote, cst.parse_expression(inner)
    except cst.ParserSyntaxError:
        return "", None


def _render_type(node: cst.BaseExpression) -> str:
    return cst.Module(body=()).code_for_node(node)
