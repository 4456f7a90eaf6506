"""Finds the kernel calls beside a changed call, in the same function, about which the case has no findings.

A function that returns new contents after a cure returns them on every path through it. On a path with another call of the
kernel, such as the other branch of `if big:`, the returned array would be the operand from before that call. The hidden
write would stay there. Such a call is changed in the same way. A call that may overwrite the array as well, and that the
cure does not change, is named in the answer.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from ligerdiag.fix.call_site import ALIASES, PALLAS_CALL, CallSite, Project, list_call_names, list_parameters
from ligerdiag.fix.readers.name_scopes import find_variable
from ligerdiag.fix.source_file import CannotFixError, SourceFile, get_name

_REFS = frozenset({"new_ref", "array_ref", "Ref"})
"""Functions of JAX that make a Ref, and the type of one. XLA knows of each write through a Ref."""

_HARMLESS = re.compile(
    r"(?:tl|triton\.language)\.(?:math\.)?(?!\w*(?:store|atomic|asm|copy|extern|map_|scan|reduce))\w+|\w+\.to"
)
"""Text by which a kernel calls a function of Triton's language that stores nothing, and runs no function given to it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _KernelCall:
    """A kernel call as the source shows it."""

    call: cst.Call
    """The call that gets the operands."""
    options: cst.Call
    """The call that has the keywords."""
    kernel: str
    """Name of the kernel; empty if the call gets it by an expression."""


def list_calls_beside(site: CallSite) -> list[cst.Call]:
    """Returns the calls of the site's kernel in the same function that do not declare the write, without the site itself.

    A call is given as the `Call` node that has the operands.
    """
    function = site.file.find_function(site.call)
    if function is None or site.forwarding is not None:
        return []
    kernel = next((one.kernel for one in _list_kernel_calls(site.file, function) if one.call is site.call), "")
    return [
        one.call
        for one in _list_kernel_calls(site.file, function)
        if kernel
        and one.kernel == kernel
        and one.call is not site.call
        and site.file.find_function(one.call) is function
        and not _declares(site.file, one)
    ]


def list_unchanged(
    project: Project,
    file: SourceFile,
    function: cst.FunctionDef,
    parameters: Sequence[str],
    changed: Collection[cst.CSTNode],
) -> list[str]:
    """Returns a text about each unchanged kernel call that may overwrite a parameter of the function.

    Such a call gets the parameter directly, or through another function of the same file. A call is left out if the
    kernel's source shows that it does not store there. changed: the calls that the cure changes.
    """
    found: list[str] = []
    own = {one.call: one for one in _list_kernel_calls(file, function)}
    for call in file.find(cst.Call, function):
        if call in changed:
            continue
        given = [one.value.value for one in call.args if isinstance(one.value, cst.Name)]
        names = [one for one in dict.fromkeys(given) if one in parameters]
        if not names:
            continue
        if call in own:
            if not _declares(file, own[call]) and not _only_reads(project, own[call], names):
                found.append(_describe(file, call, own[call].kernel, names))
            continue
        inner = next(
            (
                one
                for helper in file.find(cst.FunctionDef)
                if isinstance(call.func, cst.Name) and helper.name.value == call.func.value and helper is not function
                for one in _list_kernel_calls(file, helper)
                if one.call not in changed and not _declares(file, one) and not _only_reads(project, one, ())
            ),
            None,
        )
        if inner is not None:
            found.append(_describe(file, inner.call, inner.kernel, names))
    return found


def _describe(file: SourceFile, call: cst.Call, kernel: str, names: Sequence[str]) -> str:
    arrays = " and ".join(f"`{one}`" for one in names)
    return f"the call of {f'`{kernel}`' if kernel else 'a kernel'} that gets {arrays}{file.render_place(call)}"


def _only_reads(project: Project, found: _KernelCall, names: Sequence[str]) -> bool:
    """Returns whether the source of the only kernel of that name shows that it stores through no pointer that gets one of
    the variables `names`; () for all arguments.
    """
    kernels = _find_kernels(project, found.kernel)
    if len(kernels) != 1 or found.options is not found.call or any(one.star for one in found.call.args):
        return False
    file, kernel = kernels[0]
    parameters = list_parameters(kernel)
    given = [one.value for one in found.call.args if one.keyword is None]
    pointers: set[str] = set()
    for number, value in enumerate(given):
        if not names or (isinstance(value, cst.Name) and value.value in names):
            if number >= len(parameters):
                return False
            pointers.add(parameters[number])
    named = [one for one in found.call.args if one.keyword is not None and isinstance(one.value, cst.Name)]
    pointers |= {get_name(one.keyword) for one in named if one.keyword and (not names or get_name(one.value) in names)}
    return not _may_store(file, kernel, pointers)


def _find_kernels(project: Project, name: str) -> list[tuple[SourceFile, cst.FunctionDef]]:
    found: list[tuple[SourceFile, cst.FunctionDef]] = []
    if not name:
        return found
    for path, text in project.read_texts():
        if re.search(rf"\bdef {re.escape(name)}\b", text):
            try:
                file = project.load(str(path))
            except CannotFixError:
                return []
            found += [(file, one) for one in file.find(cst.FunctionDef) if one.name.value == name]
    return found


def _may_store(file: SourceFile, kernel: cst.FunctionDef, pointers: Collection[str]) -> bool:
    """Returns whether anything but a load of the kernel may get one of the pointers, be it by another name."""
    reached, bound = set(pointers), [*_list_bindings(file, kernel)]
    while more := {name for names, value in bound if reached & value for name in names} - reached:
        reached |= more
    for call in file.find(cst.Call, kernel.body):
        text = file.module.code_for_node(call.func)
        if _HARMLESS.fullmatch(text) or text.endswith(".to"):
            continue
        is_store = text in ("tl.store", "triton.language.store") and all(one.keyword is None for one in call.args[:1])
        nodes = [call.func, call.args[0]] if is_store and call.args else [call]
        if any(reached & file.list_names(one) for one in nodes):
            return True
    return False


def _list_bindings(file: SourceFile, kernel: cst.FunctionDef) -> Iterator[tuple[set[str], set[str]]]:
    """Yields the names that each assignment and loop of the kernel binds, and those that it reads for them."""
    for one in file.find(cst.Assign, kernel):
        yield {name for target in one.targets for name in file.list_names(target)}, file.list_names(one.value)
    for kind in (cst.AugAssign, cst.AnnAssign, cst.NamedExpr):
        for one in file.find(kind, kernel):
            if one.value is not None:
                yield file.list_names(one.target), file.list_names(one.value)
    for one in file.find(cst.For, kernel):
        yield file.list_names(one.target), file.list_names(one.iter)


def _list_kernel_calls(file: SourceFile, function: cst.FunctionDef) -> Iterator[_KernelCall]:
    names = list_call_names(file)
    for call in file.find(cst.Call, function):
        inner = call.func if isinstance(call.func, cst.Call) else call
        if inner is not call and get_name(inner.func) == PALLAS_CALL:
            yield _KernelCall(call=call, options=inner, kernel=_name_kernel(inner, first=True))
        elif inner is call and get_name(call.func) in names:
            yield _KernelCall(call=call, options=call, kernel=_name_kernel(call, first=False))


def _name_kernel(call: cst.Call, *, first: bool) -> str:
    found = next((one for one in call.args if one.keyword is not None and one.keyword.value == "kernel"), None)
    if found is None and first:
        found = next((one for one in call.args if one.keyword is None), None)
    return "" if found is None else get_name(found.value)


def _declares(file: SourceFile, found: _KernelCall) -> bool:
    """Returns whether a call declares a write: by an alias, or by a Ref among its operands."""
    if any(one.keyword is not None and one.keyword.value == ALIASES for one in found.options.args):
        return True
    return any(_is_ref(file, one.value) for one in found.call.args if one.keyword is None and not one.star)


def _is_ref(file: SourceFile, value: cst.BaseExpression) -> bool:
    if isinstance(value, cst.Call):
        return get_name(value.func) in _REFS
    if not isinstance(value, cst.Name):
        return False
    for binding in find_variable(file, value, value.value).bindings:
        for parent in file.list_parents(binding):
            if isinstance(parent, cst.Assign):
                if isinstance(parent.value, cst.Call) and get_name(parent.value.func) in _REFS:
                    return True
                break
    return False
