"""Worker side: finds the values of a StableHLO module that share storage in program order, and the reads of it after a
call.

The rules are those of `analysis/program_order`, on StableHLO:

1. Every operation that computes makes new storage: reshapes, casts, loops, branches and barriers, too. A function's
   arguments and results are other names for what is handed in and out.
2. An element of a loop's state that its body returns as it came is another name for what was handed in, and for what the
   loop hands out: the next iteration, and who reads it behind the loop, sees what this one overwrote. So it is with a
   value that a loop's region takes from outside. The other elements are storage of the loop.
3. An operation that uses one of the names after the call reads it. If the call is in a function and the storage came
   from outside or goes there, the function's callers read it after their call of the function.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from jaxlib.mlir import ir

from ligerdiag.compile.lowering.tags import read_tag, walk_operations
from ligerdiag.hlo.custom_calls import CallTrait, has_trait

type AliasPath = tuple[tuple[int, int, int], ...]
"""Region, block and position at each level, from the module down to an operation."""

LOOP = "stablehlo.while"
CALL = "func.call"
RETURN = "func.return"
FUNCTION = "func.func"
CUSTOM_CALL = "stablehlo.custom_call"


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """An operation reads the storage after the call."""

    tag: int
    operand: int
    through: tuple[int, ...]
    """Tags of the function calls from the operation's function to the one where the call is."""
    untieable: str
    """The reason why the call's result is not available there; empty when it is."""


class Program:
    """The place of each operation of a module, by its tag, and the values that share storage."""

    def __init__(self, module: Any) -> None:
        """Reads the module, which is not to be changed as long as this is used."""
        self.operations: dict[int, Any] = {read_tag(one): one for one in walk_operations(module.operation)}
        self.paths: dict[int, AliasPath] = {}
        self._tags: dict[AliasPath, int] = {}
        self._uses: dict[Any, list[tuple[int, int]]] = {}
        self._scopes: dict[Any, int] = {}
        """Length of the paths of the operations in the block that has the value."""
        self._functions: dict[str, int] = {}
        self._calls: dict[int, list[int]] = {}
        """Tag of a function to those of its calls."""
        for path, operation in _walk_paths(module.operation, ()):
            self._add(read_tag(operation), path, operation)
        self._above: dict[Any, Any] = {}
        self._settled: set[int] = set()
        for function in self._functions.values():
            self._join_names(function)

    def kernels(self) -> Iterator[int]:
        """Tags of the custom calls that may be kernels."""
        for tag, operation in self.operations.items():
            if is_kernel(operation):
                yield tag

    def find_uses(self, call: int, operand: int) -> Iterator[Use]:
        """Yields the uses of the call's operand after it."""
        yield from self._find_uses(call, [self.operations[call].operands[operand]], (), "")

    def is_handed_on(self, tag: int, operand: int) -> str:
        """Returns why a copy of this operand would not only be read: the function that passes it on; empty if none
        does."""
        if self.operations[tag].name != CALL:
            return ""
        function = self._functions[_read_callee(self.operations[tag])]
        name = _read_symbol(self.operations[function])
        for value in self._names(self._arguments(function)[operand]):
            for user, number in self._uses.get(value, ()):
                if is_kernel(self.operations[user]):
                    return f"the function `{name}` hands it to a kernel, which would get a copy"
                if self.operations[user].name == RETURN:
                    return f"the function `{name}` returns it, and would return a copy"
                if reason := self.is_handed_on(user, number):
                    return reason
        return ""

    def _find_uses(self, at: int, seeds: list[Any], through: tuple[int, ...], trouble: str) -> Iterator[Use]:
        function = self._tags[self.paths[at][:1]]
        escaping: list[Any] = []
        for value in dict.fromkeys(name for seed in seeds for name in self._names(seed)):
            scope = min(self._scopes[name] for name in self._names(value))
            around = [self._tags[self.paths[at][:depth]] for depth in range(scope, len(self.paths[at]))]
            loops = [tag for tag in around if self.operations[tag].name == LOOP]
            escaping.append(value)
            for tag, number in self._uses.get(value, ()):
                if tag == at or self._is_inner_return(tag):
                    continue
                reason = self._relate(tag, at, loops)
                if reason is not None:
                    yield Use(tag=tag, operand=number, through=through, untieable=trouble or reason)
        arguments, returned = self._arguments(function), self._returned(function)
        inputs = [number for number, value in enumerate(arguments) if value in escaping]
        outputs = [number for number, value in enumerate(returned) if value in escaping]
        if len(self.paths[at]) > 2:
            trouble = trouble or self._blame(at)
        for call in self._calls.get(function, ()) if inputs or outputs else ():
            operation = self.operations[call]
            outer = [operation.operands[number] for number in inputs] + [operation.results[n] for n in outputs]
            yield from self._find_uses(call, outer, (call, *through), trouble)

    def _relate(self, tag: int, at: int, loops: list[int]) -> str | None:
        """None: it does not read what the call leaves. Else why a tie cannot stand there; empty when it can."""
        path, call = self.paths[tag], self.paths[at]
        is_inside = any(self.paths[loop] == path[: len(self.paths[loop])] and loop != tag for loop in loops)
        depth = next((d for d, (one, other) in enumerate(zip(path, call, strict=False)) if one != other), None)
        is_after = depth is not None and path[depth][:2] == call[depth][:2] and path[depth] > call[depth]
        if is_after:
            return "" if depth == len(call) - 1 else self._blame(at)
        return "it reads, before the kernel, what an earlier iteration of the loop overwrote" if is_inside else None

    def _blame(self, at: int) -> str:
        around = self.operations[self._tags[self.paths[at][:-1]]]
        return f"the kernel is inside of a `{around.name}`: what it returns is not to be had outside"

    def _is_inner_return(self, tag: int) -> bool:
        return self.operations[tag].name == RETURN and bool(self._calls.get(self._tags[self.paths[tag][:1]]))

    def _add(self, tag: int, path: AliasPath, operation: Any) -> None:
        self.paths[tag] = path
        self._tags[path] = tag
        for number, value in enumerate(operation.operands):
            self._uses.setdefault(value, []).append((tag, number))
        for value in operation.results:
            self._scopes[value] = len(path)
        for region in operation.regions:
            for block in region:
                for value in block.arguments:
                    self._scopes[value] = len(path) + 1
        if operation.name == FUNCTION:
            self._functions[_read_symbol(operation)] = tag

    @cached_property
    def _calls_in(self) -> dict[int, list[int]]:
        """Tag of a function to those of the calls inside of it."""
        found: dict[int, list[int]] = {}
        for tag, operation in self.operations.items():
            if operation.name == CALL:
                found.setdefault(self._tags[self.paths[tag][:1]], []).append(tag)
        return found

    @cached_property
    def _loops_in(self) -> dict[int, list[int]]:
        """Tag of a function to those of the loops inside of it."""
        found: dict[int, list[int]] = {}
        for tag, operation in self.operations.items():
            if operation.name == LOOP:
                found.setdefault(self._tags[self.paths[tag][:1]], []).append(tag)
        return found

    def _join_names(self, function: int) -> None:
        """Makes the result of each call in the function, and what it is another name for, one."""
        if function in self._settled:
            return
        self._settled.add(function)
        for tag in self._calls_in.get(function, ()):
            call = self.operations[tag]
            callee = self._functions[_read_callee(call)]
            self._calls.setdefault(callee, []).append(tag)
            self._join_names(callee)
            first: dict[Any, Any] = {
                self._root(value): operand
                for value, operand in zip(self._arguments(callee), call.operands, strict=True)
            }
            for value, result in zip(self._returned(callee), call.results, strict=True):
                same = first.setdefault(self._root(value), result)
                if same is not result:
                    self._above[self._root(result)] = self._root(same)

        for tag in sorted(self._loops_in.get(function, ()), reverse=True):  # the inner ones first
            self._join_kept(self.operations[tag])

    def _join_kept(self, loop: Any) -> None:
        """Makes each element of the loop's state that its body returns as it came one with what is handed in and out, 2."""
        condition, body = (region.blocks[0] for region in loop.regions)
        returned = list(list(body.operations)[-1].operation.operands)
        for number, argument in enumerate(body.arguments):
            if self._root(returned[number]) == self._root(argument):
                given = self._root(loop.operands[number])
                for other in (argument, condition.arguments[number], loop.results[number]):
                    if (name := self._root(other)) != given:
                        self._above[name] = given

    def _root(self, value: Any) -> Any:
        while value in self._above:
            value = self._above[value]
        return value

    def _names(self, value: Any) -> list[Any]:
        return self._classes.get(self._root(value), [value])

    @cached_property
    def _classes(self) -> dict[Any, list[Any]]:
        """Returns the values that have several names, by class; called when all names are joined."""
        found: dict[Any, list[Any]] = {}
        for value in self._above:
            found.setdefault(self._root(value), [self._root(value)]).append(value)
        return found

    def _arguments(self, function: int) -> list[Any]:
        return list(_entry(self.operations[function]).arguments)

    def _returned(self, function: int) -> list[Any]:
        return list(read_return(self.operations[function]).operands)


def is_kernel(operation: Any) -> bool:
    """Returns whether it is a custom call that may be a kernel."""
    return operation.name == CUSTOM_CALL and not has_trait(read_target(operation), CallTrait.FOR_PARTITIONER)


def read_target(operation: Any) -> str:
    """Returns the target of a custom call."""
    return ir.StringAttr(operation.attributes["call_target_name"]).value


def read_return(function: Any) -> Any:
    """Returns the function's last operation."""
    return list(_entry(function).operations)[-1].operation


def find_calls_of(module: Any, function: Any) -> list[Any]:
    """Returns the operations that call the function."""
    name = _read_symbol(function)
    return [one for one in walk_operations(module.operation) if one.name == CALL and _read_callee(one) == name]


def _entry(function: Any) -> Any:
    return function.regions[0].blocks[0]


def _read_symbol(function: Any) -> str:
    return ir.StringAttr(function.attributes["sym_name"]).value


def _read_callee(call: Any) -> str:
    return ir.FlatSymbolRefAttr(call.attributes["callee"]).value


def _walk_paths(operation: Any, above: AliasPath) -> Iterator[tuple[AliasPath, Any]]:
    """Yields the operations in the order of `walk_operations`."""
    for region_number, region in enumerate(operation.regions):
        for block_number, block in enumerate(region):
            for position, view in enumerate(block):
                path = (*above, (region_number, block_number, position))
                yield path, view.operation
                yield from _walk_paths(view.operation, path)
