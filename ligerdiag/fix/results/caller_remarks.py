"""Describes, for the reader of a diff, what changes for the callers of a function that returns more than before."""

import re
from collections.abc import Iterator, Sequence

import libcst as cst

from ligerdiag.fix.call_site import ChangedCaller, Project
from ligerdiag.fix.readers.array_holders import is_part
from ligerdiag.fix.readers.array_names import NOWHERE, NewContents
from ligerdiag.fix.readers.callers import Handed, find_argument, name_function
from ligerdiag.fix.readers.function_uses import WRAPPERS, Caller
from ligerdiag.fix.source_file import CannotFixError, SourceFile, get_name
from ligerdiag.text import join_words

_TRACING = WRAPPERS | {"grad", "value_and_grad", "vmap", "pmap", "shard_map", "eval_shape", "make_jaxpr", "scan"}
"""Functions of JAX that trace the function which they get."""


def record_changed(project: Project, caller: Caller, handed: Handed, plans: Sequence[NewContents]) -> None:
    """Records that the cure changes a caller.

    plans: for each parameter of the function, the variables that get its new contents.
    """
    file, call = caller.file, caller.call
    assert call is not None
    around = file.find_function(call)
    name = file.module.code_for_node(call.func) if around is None else name_function(file, around)
    project.changed_callers.append(
        ChangedCaller(
            path=file.path,
            lines=file.get_lines(call),
            place=f"`{name}`{file.render_place(call)}",
            unseen_write=_find_unseen_write(caller, handed, plans),
        )
    )
    arrays = join_words([f"`{one}`" for one in handed.parameters])
    for slot in caller.slots:
        text = f"every function in `{slot}` has to return the new contents of {arrays} as well now"
        project.remarks[text] = None


def _find_unseen_write(caller: Caller, handed: Handed, plans: Sequence[NewContents]) -> str:
    """Returns what a caller no longer has overwritten although others may hold the array; empty if there is nothing."""
    file = caller.file
    for parameter, plan in zip(handed.parameters, plans, strict=True):
        value = find_argument(caller, handed.function, parameter)
        if value is None or plan.name != NOWHERE:
            continue
        text = file.module.code_for_node(value)
        if plan.parameters or plan.containers:
            return f"no longer sees `{text}` overwritten"
        if isinstance(value, cst.Subscript) and not is_part(file, value):  # of an array, the subscript makes a new one
            whole = file.module.code_for_node(value.value)
            return f"no longer sees `{text}` overwritten, unless `{whole}` is an array"
    return ""


def describe_unseen_writes(callers: Sequence[ChangedCaller]) -> list[str]:
    """Returns a sentence for each caller whose array was overwritten before the change and no longer is."""
    return [f"{one.place} {one.unseen_write}" for one in callers if one.unseen_write]


def list_dropping(handed: Handed, callers: Sequence[tuple[Caller, Sequence[NewContents]]]) -> list[str]:
    """Returns the places of calls whose array was overwritten before the change and no longer is.

    They keep calling the function under its old name, and something else may hold the array, too.
    """
    return [
        f"`{caller.file.module.code_for_node(caller.node)}`{caller.file.render_place(caller.node)}"
        for caller, plans in callers
        if _find_unseen_write(caller, handed, plans)
    ]


def describe_kept(handed: Handed, new: str, places: Sequence[str]) -> str:
    """Returns a sentence about the users of a function that stays unchanged for them.

    `new` is the name of the function that was added beside it, and that returns the new contents.
    """
    name = name_function(handed.file, handed.function)
    arrays = join_words([f"`{one}`" for one in handed.parameters])
    is_one = len(handed.parameters) == 1
    users = f", so that its other users no longer see {'it' if is_one else 'them'} overwritten" if places else ""
    listed = f": {join_words(places)}" if places else ""
    return f"`{name}` leaves {arrays} unchanged now, unlike `{new}`{users}{listed}"


def warn_of_tracer(project: Project, file: SourceFile, call: cst.CSTNode, plans: Sequence[NewContents]) -> None:
    """Records a warning if an object may keep a tracer after the change.

    It may if a method assigns new contents to a part of its object, and JAX traces a method of that class by
    `jax.jit(object.method)`.
    """
    function = file.find_function(call)
    owner = None if function is None else file.find_class(function)
    if function is None or owner is None or not function.params.params:
        return
    own = function.params.params[0].name.value
    assigned = [
        text
        for one in plans
        for text in (one.name, *one.followers, one.replaced.partition(" = ")[0])
        if re.match(rf"{re.escape(own)}\s*[.\[]", text)
    ]
    if not assigned:
        return
    methods = {one.name.value for one in owner.body.body if isinstance(one, cst.FunctionDef)}
    traced = next(_list_traced(project, methods), "")
    if traced:
        project.remarks[
            f"`{name_function(file, function)}` assigns to `{assigned[0]}`, and {traced} may trace it: then the object "
            "keeps a tracer, so return the new contents from the traced function instead"
        ] = None


def _list_traced(project: Project, methods: set[str]) -> Iterator[str]:
    """Yields the calls in the project, such as `jax.jit(block.run)`, by which JAX traces an attribute of these names."""
    pattern = re.compile(rf"\.\s*(?:{'|'.join(map(re.escape, sorted(methods)))})\b")
    for path, text in project.read_texts():
        if not pattern.search(text) or not any(one in text for one in _TRACING):
            continue
        try:
            file = project.load(str(path))
        except CannotFixError:
            continue
        for call in file.find(cst.Call):
            traced = call.args[0].value if call.args else None
            if get_name(call.func) in _TRACING and isinstance(traced, cst.Attribute) and traced.attr.value in methods:
                yield f"`{file.module.code_for_node(call)}`{file.render_place(call)}"
