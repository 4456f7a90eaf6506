"""Declares writes of kernel calls in a lowered module, as `ligerdiag.in_place.call_in_place` does in the user's program.

The call gets one more output for each written operand. The output aliases the operand, and every reader of the operand
after the call reads the output. A reader in a function that calls the kernel's function gets it as one more result of
that function. The kernel itself is unchanged: it never looks at the further buffers of its call, which come last.
"""

import traceback
from collections.abc import Sequence
from typing import Any

from jaxlib.mlir import ir

from ligerdiag.artifacts.call_records import Readers, TieSite
from ligerdiag.compile.lowering.tags import read_tag, replace_operation, walk_operations
from ligerdiag.compile.lowering.ties import FUNCTION, return_more
from ligerdiag.errors import CompileError, InputError, describe_fault

_ALIASES, _OPERAND_LAYOUTS, _RESULT_LAYOUTS = "output_operand_aliases", "operand_layouts", "result_layouts"


def parse_write(text: str) -> tuple[int, int]:
    """Parses a text such as `40.0` into (tag of the kernel call, number of the operand). Raises InputError for any
    other text.
    """
    call, _, operand = text.partition(".")
    if not (call.isdecimal() and operand.isdecimal()):
        raise InputError(f"expected a write as `<tag of the kernel call>.<operand>`, such as `40.0`, but got `{text}`")
    return int(call), int(operand)


def declare_writes(module: Any, readers: Readers, writes: Sequence[str], case_id: str) -> None:
    """Declares these writes of kernel calls in the module, in place.

    readers: the reads of kernels' operands after the calls, which `ties.find_readers` found in this module. writes:
    texts for `parse_write`. Raises InputError if a call is not in the module or if its results are not available at a
    reader (`TieSite.unreachable`), CompileError if the readers could not be found or this jaxlib cannot change the
    call.
    """
    if not writes:
        return
    if readers.trouble:
        raise CompileError(f"cannot declare the writes of case `{case_id}`: {readers.trouble}")
    wanted = [parse_write(text) for text in writes]
    known = {read_tag(one): one for one in walk_operations(module.operation)}
    for call, _ in wanted:
        if call not in known:
            raise InputError(f"a kernel call of case `{case_id}` is not in the program that XLA gets")
    sites = [reader for reader in readers.found if (reader.call, reader.operand) in wanted]
    for site in sites:
        if site.unreachable:
            raise InputError(
                f"case `{case_id}`: an operation reads the operand that `{site.kernel}` overwrites, but cannot be "
                f"given its new contents: {site.unreachable}"
            )
    try:
        with module.context, ir.Location.unknown():
            _Declaring(module, known, wanted).redirect(sites)
    except Exception as fault:
        traceback.print_exception(fault)
        raise CompileError(
            f"cannot declare the writes of case `{case_id}` with this jaxlib: {describe_fault(fault)}"
        ) from fault


class _Declaring:
    """A module whose calls declare the wanted writes."""

    def __init__(self, module: Any, operations: dict[int, Any], wanted: Sequence[tuple[int, int]]) -> None:
        self._module = module
        self._operations = operations
        self._outputs: dict[tuple[int, int], int] = {}
        """The number of the result by which each written operand is declared."""
        self._returned: dict[tuple[tuple[int, ...], int], int] = {}
        """The result by which a function returns a written operand: from the calls that lead to the kernel call, its own
        tag last, and the operand, to the number of that result.
        """
        for call in dict.fromkeys(call for call, _ in wanted):
            written = [operand for one, operand in wanted if one == call]
            first = len(operations[call].results)
            self._outputs |= {(call, operand): first + number for number, operand in enumerate(written)}
            operations[call] = _declare(operations[call], written)

    def redirect(self, sites: Sequence[TieSite]) -> None:
        """Makes each reader read the output that declares the write. If there are several writes before the reader, it
        reads the output of the last one.
        """
        for site in sorted(sites, key=lambda one: (*one.through, one.call)):  # in program order, function by function
            new = self._find_value((*site.through, site.call), site.operand)
            self._operations[site.reader].operands[site.reader_operand] = new

    def _find_value(self, path: tuple[int, ...], operand: int) -> Any:
        tag, *rest = path
        if not rest:
            return self._operations[tag].results[self._outputs[tag, operand]]
        key = (tuple(rest), operand)
        if key not in self._returned:
            value = self._find_value(key[0], operand)
            function = self._operations[rest[0]]
            while function.name != FUNCTION:
                function = function.parent.operation
            self._returned[key] = return_more(self._module, self._operations, function, value)
        return self._operations[tag].results[self._returned[key]]


def _declare(call: Any, written: Sequence[int]) -> Any:
    """Returns the call with one more output for each written operand, which aliases it."""
    first = len(call.results)
    types = [call.operands[operand].type for operand in written]
    new = replace_operation(call, call.location, more_results=types)
    several = first + len(written) > 1
    entries = [
        f"#stablehlo.output_operand_alias<output_tuple_indices = [{first + number if several else ''}],"
        f" operand_index = {operand}, operand_tuple_indices = []>"
        for number, operand in enumerate(written)
    ]
    given = [str(one) for one in ir.ArrayAttr(new.attributes[_ALIASES])] if _ALIASES in new.attributes else []
    if first == 1:  # a single result has no index, one of several has
        given = [one.replace("output_tuple_indices = []", "output_tuple_indices = [0]") for one in given]
    new.attributes[_ALIASES] = ir.Attribute.parse(f"[{', '.join((*given, *entries))}]")
    if _RESULT_LAYOUTS in new.attributes:
        layouts = list(ir.ArrayAttr(new.attributes[_OPERAND_LAYOUTS]))
        results = [*ir.ArrayAttr(new.attributes[_RESULT_LAYOUTS]), *(layouts[operand] for operand in written)]
        new.attributes[_RESULT_LAYOUTS] = ir.ArrayAttr.get(results)
    return new
