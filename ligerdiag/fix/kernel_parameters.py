"""Changes the parameters of a Triton kernel, and the pointers through which it stores."""

from collections.abc import Sequence

import libcst as cst

from ligerdiag.fix.call_arguments import insert
from ligerdiag.fix.call_site import CallSite, Project, list_call_names, list_parameters
from ligerdiag.fix.readers.function_uses import list_imported_uses, list_texts_that_name
from ligerdiag.fix.source_file import CannotFixError, SourceFile, get_name
from ligerdiag.text import join_words

_STORES = ("store", "atomic_add", "atomic_max", "atomic_min", "atomic_xchg", "atomic_and", "atomic_or", "atomic_cas")


def require_kernel(site: CallSite) -> cst.FunctionDef:
    """Returns the `def` of the kernel.

    Raises CannotFixError if it is not in this project. Also raises it if a call passes outputs or constants in an order
    that leaves no place for a new pointer.
    """
    if site.kernel_function is None:
        raise CannotFixError(f"the source of `{site.kernel}` is not found in this project")
    return site.kernel_function


def list_other_calls(project: Project, site: CallSite) -> list[tuple[SourceFile, cst.Call]]:
    """Returns all calls of the site's kernel in the project except the site itself; a new parameter would break them.

    Raises CannotFixError if another kernel calls this kernel, or if one of its calls has a form that cannot be changed.
    """
    found: list[tuple[SourceFile, cst.Call]] = []
    home = site.kernel_file
    users = project.find_users(site.kernel, home)
    references = {one: file for file in users for one in file.find(cst.Name) if one.value == site.kernel}
    imported = list_imported_uses(project, home, site.kernel, set())  # by another name, too
    references |= {one: file for file, one in imported if isinstance(one, cst.Name)}
    for reference, file in references.items():
        if reference is require_kernel(site).name:
            continue
        parents = list(file.list_parents(reference))
        if any(isinstance(one, cst.ImportFrom) for one in parents):
            continue
        if isinstance(parents[0], cst.Arg) and parents[0].keyword is reference:
            continue
        call = next((one for one in parents if isinstance(one, cst.Call)), None)
        if call is site.options:
            continue
        if call is None or get_name(call.func) not in (site.callee, *list_call_names(file)):
            raise CannotFixError(f"`{site.kernel}` is used in another way than in a call{file.render_place(reference)}")
        found.append((file, call))
    project.unseen |= dict.fromkeys(list_texts_that_name(project, site.kernel, home))
    return found


def add_spares(project: Project, group: Sequence[CallSite], known: Sequence[CallSite], wish: str = "spare_ptr") -> None:
    """Adds an unused pointer parameter to the kernel for each operand that it overwrites.

    The kernel needs them because jax-triton before 0.4 and Pallas pass a pointer for each output, even if the output
    aliases an operand. group, known: as in `add_pointers`.
    """
    first = group[0]
    names = name_spare(first, len(first.written), wish)
    add_pointers(project, group, known, names)
    comments = [
        cst.EmptyLine(comment=cst.Comment(f"# {name}: the new contents of {one.parameter}, in its bytes"))
        for name, one in zip(names, first.written, strict=True)
        if one.parameter
    ]

    def explain(node: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(node, cst.SimpleStatementLine | cst.BaseCompoundStatement)
        return node.with_changes(leading_lines=[*comments, *node.leading_lines])

    kernel = require_kernel(first)
    if isinstance(kernel.body, cst.IndentedBlock):
        statements = kernel.body.body
        place = 1 if kernel.get_docstring() is not None and len(statements) > 1 else 0
        first.kernel_file.change(statements[place], explain)


def add_pointers(project: Project, group: Sequence[CallSite], known: Sequence[CallSite], names: Sequence[str]) -> None:
    """Adds a pointer parameter to the kernel for each operand that it overwrites, after the parameters for its outputs.

    group: the calls of the kernel that are changed. known: the calls that the findings of the case name.
    """
    site = group[0]
    function = require_kernel(site)

    def change(node: cst.CSTNode) -> cst.Parameters:
        assert isinstance(node, cst.Parameters)
        params = [*node.params]
        place = next((n for n, one in enumerate(params) if _is_constant(one)), len(params))
        for name in reversed(names):
            params = insert(params, place, cst.Param(cst.Name(name)))
        return node.with_changes(params=params)

    site.kernel_file.require_unchanged(function.params)
    others = [one.file.render_place(one.call).strip(" ()") for one in group if one not in known]
    operands = join_words([f"`{one.parameter}`" for one in site.written if one.parameter])
    added = f"new parameter{'' if len(names) == 1 else 's'} {join_words([f'`{one}`' for one in names])}"
    purpose = f" for the new contents of {operands}" if operands else ""
    launches = f"; also launched at {join_words(others)}" if others else "; no other launch of it is found"
    if site.is_pallas and not others:  # nothing is searched for them
        launches = ""
    project.remarks[f"`{site.kernel}` has the {added}{purpose}{launches}"] = None
    site.kernel_file.change(function.params, change)


def _is_constant(parameter: cst.Param) -> bool:
    annotation = parameter.annotation
    if annotation is None:
        return parameter.default is not None
    node = annotation.annotation
    if isinstance(node, cst.SimpleString):
        return "constexpr" in node.value
    return get_name(node) == "constexpr"


def name_spare(site: CallSite, count: int, wish: str = "spare_ptr") -> list[str]:
    """Returns `count` names for new pointer parameters, such as `spare_ptr`, that the kernel does not use yet.

    wish: the name from which they are derived.
    """
    used = site.kernel_file.list_names(require_kernel(site))
    names: list[str] = []
    for number in range(count):
        name = wish if count == 1 else f"{wish}_{number}"
        while name in used:
            name = f"{name}_"
        names.append(name)
    return names


def redirect_stores(site: CallSite, pointers: dict[str, str]) -> None:
    """Makes the kernel store through new pointers instead of the pointers of its operands.

    pointers: maps the name of an operand's parameter to the name of the new pointer parameter. Raises CannotFixError if
    the kernel uses a pointer outside of loads and stores, since it is then unclear where it stores. Raises CannotFixError
    as well if the kernel stores by atomic operations, because these read the old contents.
    """
    file, function = site.kernel_file, require_kernel(site)
    for reference in list(file.find(cst.Name, function.body)):
        if reference.value not in pointers:
            continue
        if _is_type(file, reference):  # equal for the new pointer
            continue
        call, pointer = None, False
        child: cst.CSTNode = reference
        for parent in file.list_parents(reference):
            if isinstance(parent, cst.Call) and get_name(parent.func) in (*_STORES, "load"):
                call, pointer = parent, child is parent.args[0]
                break
            if isinstance(parent, cst.BaseSmallStatement):
                break
            child = parent
        if call is None or not pointer:
            raise CannotFixError(
                f"`{reference.value}` is used in the kernel outside of loads and stores{file.render_place(reference)}"
            )
        operation = get_name(call.func)
        if operation == "load":
            continue
        if operation != "store":
            raise CannotFixError(f"the kernel updates `{reference.value}` by `{operation}`{file.render_place(call)}")
        file.change(reference, lambda node: node.with_changes(value=pointers[node.value]))  # type: ignore[attr-defined]


def _is_type(file: SourceFile, reference: cst.Name) -> bool:
    """Returns whether a pointer is read for its type alone, as by `x_ptr.dtype.element_ty`."""
    parent = next(file.list_parents(reference))
    return isinstance(parent, cst.Attribute) and parent.value is reference and parent.attr.value in ("dtype", "type")


def list_kernel_names(site: CallSite) -> list[str]:
    """Returns the names of the kernel's parameters."""
    return list_parameters(site.kernel_function)
