"""Writes the patch that a finding proposes: the kernel call changed so that it declares the write.

A patch uses `ligerdiag.in_place.call_in_place`, which declares the write with every version of jax-triton. A call that
cannot be read or understood gets no patch. The patch is a sentence, and, if the statement can be rewritten as a whole,
the user's lines before and after the change as well.
"""

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from ligerdiag.hlo.custom_calls import has_trait
from ligerdiag.model.findings import CallPlace, ReadPlace
from ligerdiag.rules.way_to_readers import count_returning, find_way_to, name_function
from ligerdiag.rules.wording import JAX_TRITON, SPARE
from ligerdiag.source_text import count_characters, load_source_lines, parse_source, read_last_name
from ligerdiag.text import join_words

_CALL = "triton_call"
_CURE = "call_in_place"
IMPORT = "from ligerdiag.in_place import call_in_place"
"""The line that a patched file needs."""
FINDS_CALLERS = " (`ligerdiag fix` finds them)"
"""The hint, in the help of a finding, that another command finds the callers which the help speaks of."""
_MAX_TEXT = 60
"""Greatest length, in characters, of an argument that a patch quotes."""
_MAX_LINES = 40
"""Greatest number of lines of a statement that a patch rewrites as a whole."""
_OUTPUTS = ("out_shape", "out_type")
"""Keywords of jax-triton, old and new, that declare the outputs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPatch:
    """A kernel call in the user's source, and the same call with a declared write."""

    sentence: str
    """The changed call on one line, with the import that it needs and the names to use after the call."""
    use: str
    """The last part of `sentence`: it tells the user which names to use after the call, and which parameters the kernel
    must have.
    """
    file: str = ""
    line: int = 0
    """1-based number of the first line of `before`."""
    before: tuple[str, ...] = ()
    """The lines of the statement as they are; empty if only the sentence is known."""
    after: tuple[str, ...] = ()
    """The lines that replace `before`."""
    imports: tuple[str, ...] = ()
    """Lines to add at the top of the file; empty if the file has them."""


def compute_patch(
    call: CallPlace, *, operand: int, source_roots: Sequence[str], reads: Sequence[ReadPlace] = ()
) -> CallPatch | None:
    """Returns a patch that makes the kernel call declare the write.

    None if the source of the call cannot be read or understood, or declares the write already. operand: number of an
    overwritten operand. reads: the reads that the patch has to correct. Which names the patch tells the user to use after
    the call depends on them.
    """
    if call.line is None or call.is_declared or not has_trait(call.target, JAX_TRITON):
        return None
    roots = tuple(source_roots)
    tree = parse_source(call.line.file, roots)
    found = None if tree is None else _find_call(tree, call.line.line)
    if tree is None or found is None:
        return None
    node, statement = found
    if any(isinstance(argument, ast.Starred) for argument in node.args):
        return None
    arguments = [_quote(argument) for argument in node.args]
    passed = _find_passed(call, operand, node, _find_kernel_parameters(call, tree, roots))
    values = [_quote(one.value) for one in passed]
    if not values or not all(value and len(value) <= _MAX_TEXT for value in values):
        return None
    outputs = _find_outputs(node)
    if not outputs:
        return None
    targets = _find_targets(node, statement)
    names = _name_values(values, targets)
    results = ", ".join((*_list_results(call, targets), *names))
    results += "" if "," in results else ","
    given = ", ".join([*arguments, *(f"{one.name}={_quote(one.value)}" for one in passed if one.is_keyword)])
    given = given if given and len(given) <= 2 * _MAX_TEXT else "…"
    used = _describe_use(call, values, names, reads, is_argument=_is_handed_in(tree, node, values), roots=roots)
    use = f"{used} ({SPARE}){_explain_positions(passed)}"
    number = _render_written([one.written for one in passed])
    before, after = (), ()
    if statement is not None and not (_is_nested(node, statement) and call.outputs != 1):
        starred = f"*{results}" if _is_one_of_a_sequence(node, statement) else results
        lines = load_source_lines(call.line.file, roots)
        before, after = _rewrite(lines, node, statement, results=starred, written=number)
    return CallPatch(
        sentence=f"`{results} = {_CURE}({given}, written={number}, outputs={outputs}, …)`, with `{IMPORT}`, and {use}",
        use=use,
        file=call.line.file,
        line=0 if statement is None else statement.lineno,
        before=before,
        after=after,
        imports=() if _has_import(tree) else (IMPORT,),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Passed:
    """An overwritten array as the source of the call passes it."""

    value: ast.expr
    written: str
    """The array's entry in `written`, as source text: a position among all arguments of the call, or a parameter's name."""
    operand: int
    """Number of the operand of the custom call."""
    name: str = ""
    """Name of the kernel's parameter; empty if unknown."""
    is_keyword: bool = False
    """Whether the call passes the array by the parameter's name."""


def _find_passed(call: CallPlace, operand: int, node: ast.Call, parameters: Sequence[str]) -> list[_Passed]:
    """Returns the overwritten arrays; [] if one of them is not found.

    operand: the number of the overwritten operand if `call` lists none. parameters: those of the kernel, in order; () if
    unknown. The number of an operand is its position only if every argument of the call is an array.
    """
    found: list[_Passed] = []
    by_name = {one.arg: one.value for one in node.keywords if one.arg}
    numbers = call.written or (operand,)
    for number, name in zip(numbers, call.parameters or ("",) * len(numbers), strict=True):
        if name and name in by_name:
            found.append(_Passed(value=by_name[name], written=f'"{name}"', operand=number, name=name, is_keyword=True))
        elif name in parameters and (position := parameters.index(name)) < len(node.args):
            found.append(_Passed(value=node.args[position], written=str(position), operand=number, name=name))
        elif name not in parameters and len(node.args) == call.operands and number < len(node.args):
            text = f'"{name}"' if name else str(number)
            found.append(_Passed(value=node.args[number], written=text, operand=number, name=name))
        else:
            return []
    return [] if any(isinstance(one.value, ast.Constant) for one in found) else found


def _explain_positions(passed: Sequence[_Passed]) -> str:
    """Returns words for the end of a patch on the positions in `written` that are not the numbers of the operands."""
    moved = [one for one in passed if one.written.isdecimal() and int(one.written) != one.operand]
    named = join_words([f"{one.written} for operand {one.operand}, `{one.name}`" for one in moved])
    return f"; `written` counts scalars, too, so it is {named}" if moved else ""


def _find_kernel_parameters(call: CallPlace, tree: ast.Module, roots: Sequence[str]) -> list[str]:
    """Returns the names of the kernel's parameters, in order; [] if its source is not found, or is not the only one.

    tree: the file that calls the kernel. The kernel is sought there and in the files whose lines write the operand.
    """
    files = dict.fromkeys(line.file for line in call.stores if call.line is None or line.file != call.line.file)
    trees = [tree, *(one for file in files if (one := parse_source(file, roots)) is not None)]
    found = [
        [one.arg for one in (*node.args.posonlyargs, *node.args.args)]
        for one in trees
        for node in ast.walk(one)
        if isinstance(node, ast.FunctionDef) and node.name == call.kernel
    ]
    return found[0] if len(found) == 1 else []


def _name_values(values: Sequence[str], targets: str) -> list[str]:
    """Returns a name for the new value of each written operand: the variable that is passed for it, or `new_0`, `new_1`,
    and so on, if that is no variable or the statement assigns it already; `updated` in place of a single `new_0`.

    values: source texts of the written operands. targets: source text of the names to which the call's result is
    assigned, from `_find_targets`.
    """
    taken = {part.strip() for part in targets.split(",")}
    names = [
        value if value.isidentifier() and value not in taken else f"new_{number}" for number, value in enumerate(values)
    ]
    return ["updated"] if names == ["new_0"] else names


def _is_handed_in(tree: ast.Module, node: ast.Call, values: Sequence[str]) -> bool:
    """Returns whether a function gets one of the overwritten arrays as an argument and passes it to the kernel. values:
    source texts of the overwritten operands.
    """
    around = [
        one
        for one in ast.walk(tree)
        if isinstance(one, ast.FunctionDef) and one.lineno <= node.lineno <= (one.end_lineno or one.lineno)
    ]
    if not around:
        return False
    arguments = max(around, key=lambda one: one.lineno).args
    named = {one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    return not named.isdisjoint(values)


def _describe_use(
    call: CallPlace,
    values: Sequence[str],
    names: Sequence[str],
    reads: Sequence[ReadPlace],
    *,
    is_argument: bool,
    roots: Sequence[str],
) -> str:
    """Returns the words on which names to use after the call, or on what a declared write does for readers of the old
    contents alone. values: source texts of the overwritten operands. names: those of their new values. is_argument:
    whether the callers of the function have one of the operands, too.
    """
    meant = [read for read in reads if not read.needs_old]
    if reads and not meant:
        readers = "this reader" if len(reads) == 1 else "these readers"
        kept = f"XLA keeps the old contents of {_quote_names(values)} for {readers}"
        return f"{kept}; each reader that needs the new ones has to use the value that the call returns"
    use = f"use {_quote_names(names)} from there on"
    if len(meant) < len(reads):
        use += " where you need the new contents"
    one = "it" if len(names) == 1 else "them"
    through, places = find_way_to(call, meant, roots)
    returning = count_returning(call, names, through, roots) if places else 0
    returned, through = _quote_names(through[:returning]), _quote_names(through[returning:])
    verb = "returns" if returning == 1 else "return"
    if places and not through:
        return f"{use}: {returned} {verb} {one} already; use the returned array in {places}"
    if places:
        use += f", which {returned} {verb} already" if returned else ""
        more = f"all other callers of {through} then get {one} as well{FINDS_CALLERS}"
        return f"{use}: return {one} from {through}, and use {one} in {places}; {more}"
    home = call.line
    if is_argument and call.callers and not meant and home is not None and home.function:
        use += f"; other callers of `{name_function(home)}` that read the array afterwards need {one}, too"
    return use


def _quote_names(names: Sequence[str]) -> str:
    return join_words([f"`{name}`" for name in names])


def _list_results(call: CallPlace, targets: str) -> list[str]:
    if not call.outputs:
        return []
    if not targets:
        return ["_"] * call.outputs
    return [targets] if call.outputs == 1 or "," in targets else [f"*{targets}"]


def _rewrite(
    lines: Sequence[str], node: ast.Call, statement: ast.stmt, *, results: str, written: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the lines of the statement, and the lines that replace them; both are empty if the call has no keyword for
    its outputs, or if the statement is too long or shares its lines with others.

    lines: all lines of the file. results: source text of the names that get the results of the changed call. written:
    source text of the numbers of the written operands.
    """
    declared = next((one for one in node.keywords if one.arg in _OUTPUTS), None)
    first, last = statement.lineno, statement.end_lineno or statement.lineno
    text = "\n".join(lines[first - 1 : last])
    if declared is None or last - first >= _MAX_LINES:
        return (), ()

    def find(line: int | None, column: int | None) -> int:
        before = lines[first - 1 : (line or first) - 1]
        return sum(len(one) + 1 for one in before) + count_characters(lines[(line or first) - 1], column or 0)

    start, end = find(first, statement.col_offset), find(last, statement.end_col_offset)
    if text[:start].strip() or text[end:].strip()[:1] not in ("", "#"):
        return (), ()
    begin, stop = find(node.lineno, node.col_offset), find(node.end_lineno, node.end_col_offset)
    name_end = find(node.func.end_lineno, node.func.end_col_offset)
    keyword = find(declared.lineno, declared.col_offset)
    value = find(declared.value.lineno, declared.value.col_offset)
    gap = text[text.rfind("\n", 0, keyword) : keyword]
    gap = gap if gap.startswith("\n") and not gap.strip() else " "
    changed = f"{results} = {_CURE}{text[name_end:keyword]}written={written},{gap}outputs={text[value:stop]}"
    if _is_nested(node, statement):
        after = f"{text[:start]}{changed}\n{text[:begin]}result{text[stop:]}"
    else:
        after = f"{text[:start]}{changed}{text[end:]}"
    return _list_lines(text), _list_lines(after)


def _list_lines(text: str) -> tuple[str, ...]:
    return tuple(line.rstrip() for line in text.split("\n"))


def _is_nested(node: ast.Call, statement: ast.stmt) -> bool:
    """Returns whether the call is a part of a larger expression: neither the whole right side of one assignment nor a
    statement of its own.
    """
    match statement:
        case ast.Assign(targets=[_], value=value) | ast.Expr(value=value):
            return value is not node
        case _:
            return True


def _is_one_of_a_sequence(node: ast.Call, statement: ast.stmt) -> bool:
    """Returns whether the call declares its outputs as a sequence of length one that the statement does not unpack: the
    assigned name then holds a sequence, and not the array.
    """
    declared = next((one.value for one in node.keywords if one.arg in _OUTPUTS), None)
    match statement:
        case ast.Assign(targets=[ast.Tuple() | ast.List()]) | ast.Expr():
            return False
        case _:
            return isinstance(declared, (ast.Tuple, ast.List)) and len(declared.elts) == 1


def _render_written(entries: Sequence[str]) -> str:
    return entries[0] if len(entries) == 1 else f"({', '.join(entries)})"


def _find_outputs(node: ast.Call) -> str:
    """Returns the source text of the outputs that the call declares now; empty if the call declares an alias."""
    for keyword in node.keywords:
        if keyword.arg == "input_output_aliases":
            return ""
    for keyword in node.keywords:
        if keyword.arg in _OUTPUTS:
            match keyword.value:
                case ast.Tuple(elts=elements) | ast.List(elts=elements):
                    text = "[" + ", ".join(ast.unparse(element) for element in elements) + "]"
                case value:
                    text = ast.unparse(value)
            return text if len(text) <= 2 * _MAX_TEXT else "<as now>"
    return "<as now>"


def _find_call(tree: ast.Module, line: int) -> tuple[ast.Call, ast.stmt | None] | None:
    """Returns the innermost `triton_call` around the line, and the statement whose lines a patch can replace. The
    statement is None if it may execute the call several times or not at all. Returns None if there is no such call, or
    more than one.
    """
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and read_last_name(node.func) == _CALL
        and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    if not found:
        return None
    call = max(found, key=lambda node: node.lineno)
    if sum(node.lineno == call.lineno for node in found) > 1:
        return None
    for node in ast.walk(tree):
        if isinstance(node, (ast.Assign, ast.Expr, ast.Return)) and _reaches(node, call):
            return call, node
    return call, None


_GUARDS = (ast.Lambda, ast.IfExp, ast.BoolOp, ast.NamedExpr, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
"""Expressions that evaluate a part of themselves later, several times or not at all."""


def _reaches(node: ast.AST, call: ast.Call) -> bool:
    """Returns whether evaluating the node evaluates the call exactly once."""
    pending = [node]
    while pending:
        one = pending.pop()
        if one is call:
            return True
        if not isinstance(one, _GUARDS):
            pending += ast.iter_child_nodes(one)
    return False


def _find_targets(call: ast.Call, statement: ast.stmt | None) -> str:
    """Returns the source text of the names to which the result of the call is assigned; empty if it is not used."""
    match statement:
        case ast.Assign(targets=[target], value=value) if value is call:
            return ast.unparse(target).strip("()").rstrip(",")
        case ast.Expr(value=value) if value is call:
            return ""
        case _:
            return "result"


def _has_import(tree: ast.Module) -> bool:
    return any(isinstance(one, ast.ImportFrom) and any(name.name == _CURE for name in one.names) for one in tree.body)


def _quote(node: ast.expr) -> str:
    text = ast.unparse(node)
    return text if "\n" not in text else ""
