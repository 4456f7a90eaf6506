"""Adds, replaces and removes arguments of calls and parameters of functions, in the style of their neighbours."""

from collections.abc import Callable, Sequence

import libcst as cst

from ligerdiag.fix.source_file import SourceFile


def parse_argument(text: str) -> cst.Arg:
    """Parses the source text of one argument of a call, such as `written=0`."""
    call = cst.parse_expression(f"f({text})")
    assert isinstance(call, cst.Call)
    keyword = call.args[0]
    if keyword.keyword is None:
        return keyword
    plain = cst.AssignEqual(whitespace_before=cst.SimpleWhitespace(""), whitespace_after=cst.SimpleWhitespace(""))
    return keyword.with_changes(equal=plain)


def _copy_comma(comma: cst.Comma | cst.MaybeSentinel) -> cst.Comma:
    """Returns a comma with the same space or line break behind it, without the comment."""
    if not isinstance(comma, cst.Comma):
        return cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    space = comma.whitespace_after
    if isinstance(space, cst.ParenthesizedWhitespace):
        line = space.first_line.with_changes(comment=None, whitespace=cst.SimpleWhitespace(""))
        space = space.with_changes(first_line=line, empty_lines=())
    return comma.with_changes(whitespace_after=space)


def insert[Item: (cst.Arg, cst.Param)](items: Sequence[Item], place: int, new: Item) -> list[Item]:
    """Returns the list of arguments or parameters with `new` inserted at index `place`.

    If the neighbours of `new` have lines of their own, `new` gets a line of its own, too.
    """
    listed = [*items]
    if not listed:
        return [new]
    if place < len(listed):
        neighbour = listed[place - 1] if place else listed[0]
        return [*listed[:place], new.with_changes(comma=_copy_comma(neighbour.comma)), *listed[place:]]
    last, separator = listed[-1], _copy_comma(listed[-2].comma if len(listed) > 1 else cst.MaybeSentinel.DEFAULT)
    return [*listed[:-1], last.with_changes(comma=separator), new.with_changes(comma=last.comma)]


def find_keyword_place(args: Sequence[cst.Arg], names: Sequence[str]) -> int | None:
    """Returns the index of the first keyword argument that has one of these names, or None if there is none."""
    return next((n for n, one in enumerate(args) if one.keyword is not None and one.keyword.value in names), None)


def add_keyword(call: cst.Call, text: str, *, after: Sequence[str]) -> cst.Call:
    """Returns the call with a keyword argument added, such as `written=0`.

    It comes after the argument with one of the names `after`, or at the end if there is no such argument.
    """
    place = find_keyword_place(call.args, after)
    return call.with_changes(
        args=insert(call.args, len(call.args) if place is None else place + 1, parse_argument(text))
    )


def replace_argument(call: cst.Call, place: int | None, change: Callable[[cst.Arg], cst.Arg]) -> cst.Call:
    """Returns the call with the function `change` applied to the argument at index `place`.

    If `place` is None, the call is returned unchanged.
    """
    if place is None:
        return call
    args = [*call.args]
    args[place] = change(args[place])
    return call.with_changes(args=args)


def replace_keyword(call: cst.Call, names: Sequence[str], change: Callable[[cst.Arg], cst.Arg]) -> cst.Call:
    """Returns the call with the function `change` applied to the keyword argument that has one of these names.

    If there is no such argument, the call is returned unchanged.
    """
    return replace_argument(call, find_keyword_place(call.args, names), change)


def wrap(call: cst.Call, column: int, file: SourceFile) -> cst.Call:
    """Returns the call with its arguments moved to new lines if its single line would be too long for the file.

    Any other call is returned unchanged. column: number of characters before the call in its line, the indentation
    included.
    """
    text = cst.Module(body=()).code_for_node(call)
    if isinstance(call.func, cst.Call):
        return call.with_changes(func=wrap(call.func, column, file))
    if "\n" in text or column + len(text) <= file.width or not call.args:
        return call
    step = cst.ParenthesizedWhitespace(indent=True, last_line=cst.SimpleWhitespace(file.indentation))
    end = cst.ParenthesizedWhitespace(indent=True)
    *first, last = call.args
    joined = sum(len(cst.Module(body=()).code_for_node(one)) for one in call.args) + 8
    if joined <= file.width:
        return call.with_changes(
            whitespace_before_args=step,
            args=[*first, last.with_changes(comma=cst.MaybeSentinel.DEFAULT, whitespace_after_arg=end)],
        )
    comma, final = cst.Comma(whitespace_after=step), cst.Comma(whitespace_after=end)
    return call.with_changes(
        whitespace_before_args=step,
        args=[*(one.with_changes(comma=comma) for one in first), last.with_changes(comma=final)],
    )


def shift(call: cst.Call, indentation: int, column: int, moved: int) -> cst.Call:
    """Returns the call with those lines of its arguments moved that are aligned with the first argument.

    indentation: number of blanks before the statement. column: position of the call in its line. moved: number of
    characters by which the call has moved to the right.
    """
    first = column + len(cst.Module(body=()).code_for_node(call.with_changes(args=()))) - 1

    def move(space: cst.BaseParenthesizableWhitespace) -> cst.BaseParenthesizableWhitespace:
        if not isinstance(space, cst.ParenthesizedWhitespace):
            return space
        width = len(space.last_line.value)
        if width + (indentation if space.indent else 0) != first or width + moved < 0:
            return space
        return space.with_changes(last_line=cst.SimpleWhitespace(" " * (width + moved)))

    args = [
        one.with_changes(comma=one.comma.with_changes(whitespace_after=move(one.comma.whitespace_after)))
        if isinstance(one.comma, cst.Comma)
        else one
        for one in call.args
    ]
    return call.with_changes(args=args)


def append_element(value: cst.BaseExpression, *texts: str) -> cst.BaseExpression:
    """Returns a tuple or list with the elements `texts`, given as source text, added at its end."""
    assert isinstance(value, cst.Tuple | cst.List)
    elements = [*value.elements]
    for text in texts:
        new = cst.Element(cst.parse_expression(text))
        if not elements:
            elements = [new]
            continue
        last, before = elements[-1], elements[-2].comma if len(elements) > 1 else cst.MaybeSentinel.DEFAULT
        has_break = len(elements) > 1 and isinstance(last.comma, cst.Comma)
        elements = [
            *elements[:-1],
            last.with_changes(comma=_copy_comma(before)),
            new.with_changes(comma=last.comma if has_break else cst.MaybeSentinel.DEFAULT),
        ]
    return value.with_changes(elements=elements)


def append_alias(statement: cst.ImportFrom, name: str) -> cst.ImportFrom:
    """Returns a `from ... import` statement that also imports `name`.

    The name gets a line of its own if each name has one.
    """
    assert not isinstance(statement.names, cst.ImportStar)
    *others, last = statement.names
    separator = _copy_comma(others[-1].comma if others else cst.MaybeSentinel.DEFAULT)
    if not others and statement.lpar is not None:
        separator = separator.with_changes(whitespace_after=statement.lpar.whitespace_after)
    new = cst.ImportAlias(name=cst.Name(name), comma=last.comma)
    return statement.with_changes(names=[*others, last.with_changes(comma=separator), new])


def make_tuple(first: cst.BaseExpression, *texts: str, parentheses: bool) -> cst.Tuple:
    """Returns a tuple of the expression `first` and the elements `texts`, given as source text."""
    elements = [cst.Element(first), *(cst.Element(cst.parse_expression(text)) for text in texts)]
    around = {} if parentheses else {"lpar": (), "rpar": ()}
    return cst.Tuple(elements=elements, **around)
