"""Finds the operations that the author of a `custom_partitioning` intends. Gives their tags (numbers that identify
operations) to the operations that XLA runs in their place.

A `custom_partitioning` holds two functions. Its own function, on whole arrays, defines the intended result: JAX runs it
if nothing is partitioned, and differentiates and traces only this one. The function that `partition` returns, here
called the shards' function, runs on each device on the device's shards; XLA asks for it during compilation. Until then
the program has a custom call without a body.

In the trace from which the program as intended comes (see `intent`), the custom call becomes a call of the function on
whole arrays. A kernel inside overwrites the operand that it gets there, which is an operand of the
`custom_partitioning` itself if the function passes it on unchanged.

XLA replaces the custom call by the operations of the shards' function and gives each the call's name; only operations
inside functions keep their own names. So each operation is put into a function before XLA sees it, except those that
exchange data between devices, which XLA numbers. XLA's inliner then joins both names:
`custom_partitioning#ld4/mul#ld7`.

Operations of the shards' function and of the function on whole arrays are paired in order if they agree in name, source
line, number of operands, and ranks and element types of their results. Kernel calls are paired in order, for each kernel. An
operation gets the tag of its partner, the *twin*, and the tags of the calls around the twin. The calls matter because only
one of the two functions may have put the operation into a nested function. An operation without a twin gets no tag.

If the two functions do not make the same kernel calls, the shards' function is a different program. Then the
`custom_partitioning` stays a custom call in the program as intended, with unknown effects, and names the function on
whole arrays, which replay runs. If neither that function, which may be plain arithmetic, nor any kernel of the schedule
has a hidden write, nothing can be stale.
"""

import importlib
import re
import traceback
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from jaxlib.mlir import ir

from ligerdiag.compile.cases.stablehlo_program import walk_operations
from ligerdiag.compile.lowering.intent_jax import WRITES, wrapped
from ligerdiag.compile.lowering.kernel_calls import read_config
from ligerdiag.compile.lowering.tags import (
    find_target,
    iterate_lines,
    match_keys,
    read_name,
    read_tag,
    rename_location,
    set_location,
    strip_tag,
)
from ligerdiag.errors import is_project_file
from ligerdiag.hlo.custom_calls import PARTITIONED

_LIBRARIES = ("jax._src.custom_partitioning", "jax.experimental.custom_partitioning")
_BUILD = "build_mlir_module_helper"
"""Name of JAX's function that lowers the function which `partition` returns for the shards."""
_ROOT = "main"
_NOT_OUTLINED = frozenset({
    "func.return", "stablehlo.constant", "stablehlo.all_gather", "stablehlo.all_reduce", "stablehlo.all_to_all",
    "stablehlo.collective_broadcast", "stablehlo.collective_permute", "stablehlo.partition_id", "stablehlo.reduce_scatter",
    "stablehlo.replica_id", "stablehlo.send", "stablehlo.recv",
})  # fmt: skip
"""Operations of the shards' function that are not put into functions of their own, see the module's docstring."""
_ANNOTATIONS = re.compile(r"[Ss]hard|annotate|sdy")
"""Matches the target of a custom call that only describes an array's sharding."""
_FUNCTION = re.compile(rb"tt\.func[^@]{0,200}@([\w.$-]+)\(")

type _Key = tuple[str, str, str, int, tuple[str, ...]]
"""The properties that an operation on shards shares with the same operation on whole arrays: operation, kernel, name
and line, number of operands, ranks and element types of the results.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionStep:
    """An operation of the function on shards, or of the function on whole arrays, of a `custom_partitioning`. Its
    fields are the properties by which the operations of the two functions are paired.
    """

    key: _Key
    tag: int
    """The operation's tag; 0 if it has none."""
    calls: tuple[int, ...] | None
    """Tags of the calls that lead from the outer function to this operation; None if several paths lead there."""
    leads: bool
    """Whether this operation is a call whose tag is in the `calls` of other steps."""

    @property
    def kernel(self) -> str:
        return self.key[1]

    @property
    def form(self) -> tuple[object, ...]:
        """Returns the properties in which two calls of one kernel must agree to be paired."""
        return (self.key[1], *self.key[3:], self.calls is None)


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeFunction:
    """The function on whole arrays that belongs to one `custom_partitioning` of the program."""

    name: str
    """The name by which XLA asks for the function on shards; JAX gives all calls of one `custom_partitioning` function
    the same name.
    """
    tag: int
    """Tag of the custom call of the `custom_partitioning`."""
    steps: tuple[FunctionStep, ...]

    def __contains__(self, tag: object) -> bool:
        return any(step.tag == tag for step in self.steps)


@contextmanager
def lower_whole() -> Generator[None]:
    """Inside the context, makes JAX lower each `custom_partitioning` to a call of its function on whole arrays."""
    library = _find_library()
    primitive = getattr(library, "custom_partitioning_p", None)
    rules: Any = importlib.import_module("jax._src.interpreters.mlir")
    entry = rules._lowerings.get(primitive)  # pyright: ignore[reportPrivateUsage]
    if entry is None:
        yield
        return
    is_bare = callable(entry)  # before jax 0.8 or so, the entry is the rule itself
    replaced = _lower_to_call(entry if is_bare else entry.rule, rules)
    rules._lowerings[primitive] = replaced if is_bare else type(entry)(replaced, entry.inline)
    try:
        with wrapped(primitive, "abstract_eval", _keep_write_effect):
            yield
    finally:
        rules._lowerings[primitive] = entry


def _lower_to_call(rule: Callable[..., Any], rules: Any) -> Callable[..., Any]:
    def lower(context: Any, *values: Any, call: Any, **params: Any) -> Any:
        results = rule(context, *values, call=call, **params)
        made = next((one.owner for one in results), None)
        if made is None or find_target(made) != PARTITIONED:
            return results  # JAX inlined the function: there is one device, or all axes are manual
        made.operation.erase()
        return rules.core_call_lowering(context, *values, name="custom_partitioning", call_jaxpr=call)

    return lower


def _keep_write_effect(evaluate: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps the rule that gives the results and effects of a `custom_partitioning`, which JAX takes to have no effects:
    adds the write effect of the kernels inside (see `intent_jax.keep_calls`).
    """

    def evaluated(*avals: Any, call: Any, **params: Any) -> Any:
        results, effects = evaluate(*avals, call=call, **params)
        return results, {*effects, *(one for one in call.effects if one is WRITES)}

    return evaluated


def read_bodies(module: ir.Module, marked: ir.Module) -> tuple[WholeFunction, ...]:
    """Returns the function on whole arrays of each `custom_partitioning` that the module calls.

    Both modules are tagged. marked: the module from the trace inside `lower_whole`, which contains these functions.
    """
    functions = {ir.StringAttr(one.attributes["sym_name"]).value: one for one in _iterate_functions(marked)}
    callees = {read_tag(one): _read_callee(one) for one in walk_operations(marked.operation) if one.name == "func.call"}
    found: list[WholeFunction] = []
    for one in walk_operations(module.operation):
        callee = callees.get(read_tag(one)) if find_target(one) == PARTITIONED else None
        if callee is not None:
            steps = tuple([step for _, step in _iterate_steps(functions[callee], functions)])
            name = ir.StringAttr(one.attributes["backend_config"]).value
            found.append(WholeFunction(name=name, tag=read_tag(one), steps=steps))
    return tuple(found)


def _iterate_functions(module: ir.Module) -> Iterator[Any]:
    return (view.operation for view in module.body if view.operation.name == "func.func")


def _read_callee(call: Any) -> str:
    return ir.FlatSymbolRefAttr(call.attributes["callee"]).value


def _iterate_steps(function: Any, functions: Mapping[str, Any]) -> Iterator[tuple[Any, FunctionStep]]:
    """Yields the operations of the function in order, each with its step; after the first call of another function, the
    operations of that function follow.
    """
    callers = Counter(_iterate_callees(function, functions))
    seen = {hash(function)}

    def walk(one: Any, calls: tuple[int, ...] | None) -> Iterator[tuple[Any, FunctionStep]]:
        for operation in walk_operations(one):
            callee, tag = _find_callee(operation, functions), read_tag(operation)
            inner = (*calls, tag) if callee is not None and calls is not None and callers[hash(callee)] == 1 else None
            yield operation, FunctionStep(key=_read_key(operation), tag=tag, calls=calls, leads=inner is not None)
            if callee is not None and hash(callee) not in seen:
                seen.add(hash(callee))
                yield from walk(callee, inner)

    yield from walk(function, ())


def _iterate_callees(function: Any, functions: Mapping[str, Any]) -> Iterator[int]:
    """Yields the called function, as its `hash`, once for each call in this function and in all functions that it
    reaches; so a function that is yielded once is called from one place only.
    """
    order, seen = [function], {hash(function)}
    for one in order:
        for operation in walk_operations(one):
            callee = _find_callee(operation, functions)
            if callee is not None:
                yield hash(callee)
                if hash(callee) not in seen:
                    seen.add(hash(callee))
                    order.append(callee)


def _find_callee(operation: Any, functions: Mapping[str, Any]) -> Any:
    return functions.get(_read_callee(operation)) if operation.name == "func.call" else None


def _read_key(operation: Any) -> _Key:
    kernel = ""
    if (target := find_target(operation)) and not _ANNOTATIONS.search(target):
        found = _FUNCTION.search(read_config(operation))
        kernel = f"{target} {found[1].decode() if found else ''}"
    places = (f"{file}:{line}" for file, line in iterate_lines(operation.location) if is_project_file(file))
    last = strip_tag(read_name(operation.location) or "").rpartition("/")[2]
    types = tuple([_compute_kind(result.type) for result in operation.results])
    return operation.name, kernel, f"{last} {next(places, '')}", len(operation.operands), types


def _compute_kind(of: Any) -> str:
    """Returns the rank and element type of an array's type, which a shard shares with its array; leaves out the sizes,
    in which they differ.
    """
    if not isinstance(of, ir.RankedTensorType):
        return str(of)
    return f"{of.rank} {of.element_type}"


@contextmanager
def tag_shards(bodies: Sequence[WholeFunction]) -> Generator[list[int]]:
    """Tags the operations of the functions on shards that XLA requests while it compiles inside the context. Yields a
    list that is filled meanwhile: the tags of the `custom_partitioning` calls whose function on shards could not be
    tagged.

    bodies: the functions on whole arrays whose tags are used.
    """
    untagged: list[int] = []
    asked: list[WholeFunction] = []
    rules: Any = importlib.import_module("jax._src.interpreters.mlir")
    callbacks: Mapping[bytes, Any] = getattr(_find_library(), "_sharding_callbacks", {})

    def note(same: Sequence[WholeFunction]) -> Callable[[Any], Any]:
        def noting(partition: Any) -> Any:
            def partitioned(*args: Any, **kwargs: Any) -> Any:
                asked[:] = same
                untagged.extend(body.tag for body in same)
                return partition(*args, **kwargs)

            return partitioned

        return noting

    def tag(build: Any) -> Any:
        def built(*args: Any, **kwargs: Any) -> Any:
            module = build(*args, **kwargs)
            if asked and len({body.steps for body in asked}) == 1 and tag_as_body(module, asked[0]):
                for body in asked:
                    untagged.remove(body.tag)
            asked.clear()
            return module

        return built

    with ExitStack() as stack:
        for name in {body.name: None for body in bodies}:
            same = [body for body in bodies if body.name == name]
            call = callbacks.get(name.encode())
            if call is None:
                untagged.extend(body.tag for body in same)
            else:
                stack.enter_context(wrapped(call, "partition", note(same)))
        if hasattr(rules, _BUILD):  # before jax 0.5 or so, another function lowers it, without MLIR
            stack.enter_context(wrapped(rules, _BUILD, tag))
        yield untagged


def make_opaque(marked: ir.Module, bodies: Sequence[WholeFunction]) -> None:
    """Replaces each call of one of these functions on whole arrays by a custom call without a body. The effects of such
    a call are unknown to the analysis.

    marked: the module that is changed in place.
    """
    operations: Any = ir.Operation
    tags = {body.tag for body in bodies}
    with marked.context:
        for one in list(walk_operations(marked.operation)):
            if one.name == "func.call" and read_tag(one) in tags:
                attributes = {
                    "call_target_name": ir.StringAttr.get(PARTITIONED),
                    "called_computations": ir.ArrayAttr.get([one.attributes["callee"]]),
                    "has_side_effect": ir.BoolAttr.get(True),
                }
                new = operations.create(
                    "stablehlo.custom_call",
                    results=[result.type for result in one.results],
                    operands=list(one.operands),
                    attributes=attributes,
                    loc=one.location,
                    ip=ir.InsertionPoint(one),
                )
                for old, result in zip(one.results, new.results, strict=True):
                    old.replace_all_uses_with(result)
                one.erase()


def tag_as_body(module: ir.Module, body: WholeFunction) -> bool:
    """Tags the operations of a function on shards, in place. Each gets the tag of the same operation of the function on
    whole arrays. Also puts each top-level operation into a function of its own.

    Returns whether the module was tagged. It is not tagged if the two functions call different kernels, or if the
    attempt raises an exception, whose traceback goes to the log.
    """
    try:
        with module.context, ir.Location.unknown():
            functions = {ir.StringAttr(one.attributes["sym_name"]).value: one for one in _iterate_functions(module)}
            found = list(_iterate_steps(functions[_ROOT], functions))
            twins = _find_twins([step for _, step in found], body.steps)
            if twins is None:
                return False
            for (operation, step), twin in reversed(list(zip(found, twins, strict=True))):
                name = strip_tag(read_name(operation.location) or "")
                if twin is not None and not step.leads:
                    name = "".join(f"#ld{tag}/" for tag in twin.calls or ()) + f"{name}#ld{twin.tag}"
                set_location(operation, rename_location(operation.location, name, module.context))
            block = functions[_ROOT].regions[0].blocks[0]
            for position, view in enumerate(list(block)):
                if view.operation.name not in _NOT_OUTLINED:
                    _outline(module, view.operation, f"ligerdiag_{position}")
    except Exception as fault:
        traceback.print_exception(fault)
        return False
    return True


def _find_twins(ours: Sequence[FunctionStep], theirs: Sequence[FunctionStep]) -> list[FunctionStep | None] | None:
    """Returns, for each step of `ours`, the step of `theirs` that is the same operation, or None; None instead of the
    list if the two functions do not call the same kernels equally often.
    """
    twins: list[FunctionStep | None] = [None] * len(ours)
    for position, found in match_keys([step.key for step in ours], [step.key for step in theirs]):
        one, other = ours[position], theirs[found]
        if (one.calls is None, one.leads) == (other.calls is None, other.leads):
            twins[position] = other
    kernels = [position for position, step in enumerate(ours) if step.kernel]
    for kernel in {step.kernel for step in (*ours, *theirs) if step.kernel}:
        own = [position for position in kernels if ours[position].kernel == kernel]
        others = [step for step in theirs if step.kernel == kernel]
        if [ours[position].form for position in own] != [step.form for step in others]:
            return None
        for position, other in zip(own, others, strict=True):
            twins[position] = other
    return twins


def _outline(module: ir.Module, operation: Any, name: str) -> None:
    """Replaces the operation by a call of a new private function that contains the operation."""
    inner = list(walk_operations(operation))
    made = {hash(result) for one in inner for result in one.results}
    made |= {
        hash(argument)
        for one in (operation, *inner)
        for region in one.regions
        for block in region
        for argument in block.arguments
    }
    given: dict[Any, Any] = {}
    for one in (operation, *inner):
        given.update((operand, operand) for operand in one.operands if hash(operand) not in made)
    values = list(given)
    operations: Any = ir.Operation
    kinds = [value.type for value in values]
    results = [result.type for result in operation.results]
    function = operations.create(
        "func.func",
        attributes={
            "sym_name": ir.StringAttr.get(name),
            "function_type": ir.TypeAttr.get(ir.FunctionType.get(kinds, results)),
            "sym_visibility": ir.StringAttr.get("private"),
        },
        regions=1,
        ip=ir.InsertionPoint(module.body),
    )
    block = ir.Block.create_at_start(function.regions[0], kinds)
    call = operations.create(
        "func.call",
        results=results,
        operands=values,
        attributes={
            "callee": ir.FlatSymbolRefAttr.get(name),
            "mhlo.frontend_attributes": ir.DictAttr.get({"inlineable": ir.StringAttr.get("false")}),
        },
        ip=ir.InsertionPoint(operation),
    )
    for old, new in zip(operation.results, call.results, strict=True):
        old.replace_all_uses_with(new)
    moved = operation.detach_from_parent()
    block.append(moved)
    arguments: dict[Any, Any] = {value: block.arguments[number] for number, value in enumerate(values)}
    for one in (operation, *inner):
        for number, operand in enumerate(list(one.operands)):
            if operand in arguments:
                one.operands[number] = arguments[operand]
    operations.create("func.return", operands=list(operation.results), ip=ir.InsertionPoint(block))


def _find_library() -> Any:
    """Returns the JAX module that implements `custom_partitioning`; None if this version of JAX has none."""
    for name in _LIBRARIES:
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    return None
