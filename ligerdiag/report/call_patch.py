"""Makes a patch of a kernel call's line, so that XLA knows what the call overwrites.

jax-triton before 0.4 aliases an output, which is a pointer parameter of the kernel after those of the other outputs;
since 0.4 a Ref is passed, and the kernel stays as it is. If the call cannot be read, there is no patch.
"""

import ast
import warnings
from collections.abc import Sequence
from functools import lru_cache

from ligerdiag.findings import CallPlace
from ligerdiag.hazards.wording import TRITON, TRITON_FFI
from ligerdiag.report.source_text import load_source_lines

_CALL = "triton_call"
_MAX_TEXT = 60
"""Characters of an argument that are quoted."""


def render_patch(call: CallPlace, *, kernel: str, operand: int, source_roots: Sequence[str]) -> str:
    """Returns one line; empty where the call's own text does not say enough, or is not below one of `source_roots`."""
    if call.line is None or call.target not in (TRITON, TRITON_FFI):
        return ""
    found = _find_call(call.line.file, call.line.line, tuple(source_roots))
    if found is None:
        return ""
    node, targets = found
    arguments = [_quote(argument) for argument in node.args]
    if len(arguments) != call.operands or any(isinstance(argument, ast.Starred) for argument in node.args):
        return ""
    value = arguments[operand] if operand < len(arguments) else ""
    if not value or len(value) > _MAX_TEXT:
        return ""
    taken = {part.strip() for part in targets.split(",")}
    name = value if value.isidentifier() and value not in taken else "updated"
    function = ast.unparse(node.func)
    if call.target == TRITON_FFI:
        passed = ", ".join("ref" if number == operand else text for number, text in enumerate(arguments))
        before = f"{targets} = " if targets and call.outputs else ""
        return (
            f"`ref = jax.new_ref({value})`, `{before}{function}({passed}, …)`, `{name} = jax.freeze(ref)`,"
            f" and use `{name}` from there on (jax-triton 0.4 and later)"
        )
    shape = _find_out_shape(node, call.outputs)
    if not shape:
        return ""
    aliases = "{" + f"{operand}: {call.outputs}" + "}"
    spec = f"jax.ShapeDtypeStruct({value}.shape, {value}.dtype)" if value.isidentifier() else "<its shape and dtype>"
    results = ", ".join((*([targets] if targets else ["_"] * call.outputs), name))
    return (
        f"`{results} = {function}(…, out_shape=({shape}, {spec}), input_output_aliases={aliases}, …)`,"
        f" one more pointer parameter of `{kernel}` behind those of its other outputs, which it stores through,"
        f" and use `{name}` from there on (jax-triton before 0.4)"
    )


def _find_out_shape(node: ast.Call, outputs: int) -> str:
    """Returns the present text in the parentheses of `out_shape=(…)`."""
    for keyword in node.keywords:
        if keyword.arg == "input_output_aliases":
            return ""
    for keyword in node.keywords:
        if keyword.arg == "out_shape":
            match keyword.value:
                case ast.Tuple(elts=elements) | ast.List(elts=elements):
                    text = ", ".join(ast.unparse(element) for element in elements)
                case value:
                    text = ast.unparse(value) if outputs == 1 else f"*{ast.unparse(value)}"
            return text if len(text) <= 2 * _MAX_TEXT else "*today's"
    return "*today's"


def _find_call(file: str, line: int, source_roots: tuple[str, ...]) -> tuple[ast.Call, str] | None:
    """Returns the innermost `triton_call` around the line, and the text of what it is assigned to."""
    tree = _parse(file, source_roots)
    if tree is None:
        return None
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and _name_of(node.func) == _CALL and _holds(node, line)
    ]
    if not found:
        return None
    call = max(found, key=lambda node: node.lineno)
    if sum(node.lineno == call.lineno for node in found) > 1:
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and node.value is call and len(node.targets) == 1:
            return call, ast.unparse(node.targets[0]).strip("()")
        if isinstance(node, ast.Expr) and node.value is call:
            return call, ""
    return call, "result"


def _holds(node: ast.Call, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


@lru_cache(maxsize=16)
def _parse(file: str, source_roots: tuple[str, ...]) -> ast.Module | None:
    lines: Sequence[str] = load_source_lines(file, source_roots)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse("\n".join(lines)) if lines else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _quote(node: ast.expr) -> str:
    text = ast.unparse(node)
    return text if "\n" not in text else ""


def _name_of(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""
