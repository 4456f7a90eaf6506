"""Detects how JAX moves accesses of Refs while it differentiates a program, and makes a second version of the program,
without Refs.

To JAX's transformations, a function is a list of equations, each of which needs only its operands. A Ref, JAX's mutable
array, is different: a read needs every write before it. When JAX splits a function, it may separate a read from the
writes before it:

- From the body of a scan that it differentiates, JAX hoists everything that needs no iteration. A Ref of a constant is then
  made once, before the loop, and a read of it may run there too. The kernel call or the store between the two stays in the
  loop.
- From the body of a `jax.checkpoint`, JAX computes again what the backward pass needs. It does not repeat a call with
  an effect; it makes the Ref again, and the read sees the original.

XLA then gets another program than the author's. `watch_refs` detects both cases in the functions of JAX that cause
them. A *move* is a read that JAX has separated from a write in one of these ways.

The program as its author means it has no Refs. It comes from a second trace (see `intent`), in which JAX's own function
*discharges* each jaxpr that makes a Ref. This happens as soon as the jaxpr is traced, before any other transformation
(`discharge_refs`). A Ref is then a value, a store returns another value, and a kernel call returns what it writes; JAX
transforms values correctly. In the program that XLA compiles, JAX discharges every Ref too, but only at the end.

The functions of JAX that are wrapped here are internal. If JAX lacks a function that discharges Refs, or fails in it, the
Refs stay in the program. If JAX lacks a function in which moves are detected, JAX may have moved any Ref of a function that
it may split, and ligerdiag would not know (`RefNotes.describe_lack`).
"""

import importlib
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from jax.extend import source_info_util

from ligerdiag.artifacts.call_records import MovedRef, RefMove
from ligerdiag.compile.lowering.intent_jax import wrapped
from ligerdiag.compile.lowering.kernel_calls import PRIMITIVES
from ligerdiag.compile.lowering.tags import read_call_name
from ligerdiag.compile.lowering.traced_calls import compute_kernel_name, list_jaxprs, read_traceback
from ligerdiag.errors import describe_fault
from ligerdiag.model.findings import SourceLine

_MAKES = frozenset({"new_ref", "empty_ref"})
_READS = frozenset({"get", "freeze"})
_ENDS = frozenset({"free_ref"})
_LOOPS = "_scan_known_hoisting"
"""Name of JAX's function that hoists operations from the body of a scan; see also `intent_jax`."""
_SPLIT = "partial_eval_jaxpr_custom"
_SPLIT_REFS = "partial_eval_jaxpr_stateful"
"""Names of JAX's functions that split the body of a `jax.checkpoint`."""
_FRAMES = "JaxprStackFrame.to_jaxpr"
_EVALUATION = "JaxprTrace.process_primitive"
_OLD_MAKES = frozenset({"mutable_array"})


@dataclass(slots=True)
class RefNotes:
    """Notes on how JAX moved accesses of Refs while it traced one program. See `watch_refs`."""

    are_split: bool = False
    """Whether a function that JAX traces inside another one makes a Ref, so that JAX may split the function."""
    moves: list[MovedRef] = field(default_factory=list[MovedRef])
    sites: Mapping[str, SourceLine] = field(default_factory=dict[str, SourceLine])
    """The user's line of each access to a Ref and of each kernel call, by the name that `call_names` gives it."""
    made: SourceLine | None = None
    """Source line of the last Ref that JAX made while it split a function; None if it made none."""
    lacking: tuple[str, ...] = ()
    """Names of the internal functions that this version of JAX lacks and that ligerdiag needs to detect moves of Refs.
    """

    def describe_lack(self, jaxpr: Any) -> str:
        """Returns the reason why ligerdiag may have missed that JAX moved a Ref in this program. Returns an empty
        string if it cannot have missed a move.

        jaxpr: the jaxpr of the whole program.
        """
        if not self.lacking:
            return ""
        is_at_risk = holds_refs(jaxpr) if _FRAMES in self.lacking else self.are_split
        names = " and ".join(f"`{name}`" for name in self.lacking)
        return (
            f"this version of JAX lacks {names}, in which ligerdiag observes how JAX moves Refs" if is_at_risk else ""
        )

    def describe(self, primitive: Any, params: Mapping[str, Any], source_info: Any) -> "_Access":
        """Returns a record of an access of a primitive to a Ref. It has the line, the kernel, and the name in the
        trace.

        The line comes from `sites`, because JAX's own traceback shows a line of the forward pass even for an access in
        a backward rule.
        """
        name = read_call_name(source_info.name_stack)
        lines, function = read_traceback(source_info.traceback)
        line = SourceLine(file=lines[0][0], line=lines[0][1], function=function) if lines else None
        kernel = compute_kernel_name(params) if primitive.name in PRIMITIVES else ""
        return _Access(self.sites.get(name, line), kernel, name)

    def add(self, move: MovedRef) -> None:
        """Adds a move to `moves`, unless it is there already. A move is a read of a Ref that JAX has separated from a
        write to the same Ref.
        """
        if move not in self.moves:
            self.moves.append(move)

    def doubt(self, fault: Exception) -> None:
        """Records that ligerdiag may have missed a move of a Ref by JAX. `fault` is the exception that ended
        ligerdiag's observation of JAX.
        """
        traceback.print_exception(fault)
        self.add(MovedRef(kind=RefMove.UNKNOWN, made=None, read=None, write=None, kernel="", call=""))


@contextmanager
def discharge_refs() -> Generator[list[str]]:
    """Replaces Refs by values in every jaxpr that is traced inside the context, with JAX's own function.

    Yields a list that is filled meanwhile. It has the reasons why some jaxprs still make a Ref.
    """
    frames, discharge = _find_frames(), _find_discharge()
    faults: list[str] = []
    if frames is None or discharge is None:
        yield ["this version of JAX lacks the functions that replace Refs by values"]
        return
    with wrapped(frames, "to_jaxpr", lambda method: _discharging(method, discharge, faults)):
        yield faults


def _discharging(make: Callable[..., Any], discharge: Callable[..., Any], faults: list[str]) -> Callable[..., Any]:
    def made(self: Any, *args: Any, **kwargs: Any) -> Any:
        jaxpr, values = make(self, *args, **kwargs)
        if not _makes_refs(jaxpr):
            return jaxpr, values
        try:
            pure = discharge(jaxpr.with_consts(values), should_discharge=False)
            return pure.with_consts([]), list(pure.consts)
        except Exception as fault:  # for example a call that also gets a Ref from outside
            traceback.print_exception(fault)
            faults.append(describe_fault(fault))
            return jaxpr, values

    return made


@contextmanager
def watch_refs(sites: Mapping[str, SourceLine]) -> Generator[RefNotes]:
    """Observes how JAX moves accesses of Refs in everything that is traced inside the context. Yields the notes on
    that.

    sites: maps the name that `call_names` gives to each kernel call and each access of a Ref to its line in the user's
    code. The mapping may be filled while the context is open.
    """
    frames, evaluation, loops = _find_frames(), _partial_eval(), _find_loops()
    splits = [name for name in (_SPLIT, _SPLIT_REFS) if hasattr(evaluation, name)]
    there = {
        _FRAMES: frames is not None,
        _EVALUATION: hasattr(getattr(evaluation, "JaxprTrace", None), "process_primitive"),
        _SPLIT_REFS: bool(splits),
        _LOOPS: hasattr(loops, _LOOPS),
    }
    notes = RefNotes(sites=sites, lacking=tuple([name for name, is_there in there.items() if not is_there]))
    with ExitStack() as stack:
        if frames is not None:
            stack.enter_context(wrapped(frames, "to_jaxpr", lambda method: _noting_makers(method, notes)))
        if there[_EVALUATION]:
            trace = evaluation.JaxprTrace
            stack.enter_context(wrapped(trace, "process_primitive", lambda method: _following(method, notes)))
        for name in splits[-1:]:  # one calls the other, so wrapping the last is enough
            stack.enter_context(wrapped(evaluation, name, lambda function: _comparing(function, notes)))
        if there[_LOOPS]:
            stack.enter_context(wrapped(loops, _LOOPS, lambda function: _hoisting(function, notes)))
        with blame_refs(notes):
            yield notes


@contextmanager
def blame_refs(notes: RefNotes) -> Generator[None]:
    """Completes an exception that JAX raises inside the context because it lost a Ref: adds the line of the last Ref.
    `explain_refs` reads the line.
    """
    try:
        yield
    except Exception as fault:
        said = " ".join(str(fault).split())
        if notes.made is not None and any(known in said for known in _FAULTS):
            setattr(fault, _REF_PLACE, f"{notes.made.file}:{notes.made.line}")
        raise


_FAULTS = ("does not have a corresponding jaxpr input", "mutable array references cannot be returned")
"""Parts of JAX's messages when it has split a function so that one part makes a Ref and the other part uses it. The
traceback of such an exception does not show where the Ref is.
"""
_REF_PLACE = "__ligerdiag_cure__"


def explain_refs(fault: BaseException) -> str:
    """Returns a message if JAX raised the exception because it lost a Ref that it had moved. Returns an empty string
    for any other exception.
    """
    place: object = getattr(fault, _REF_PLACE, None)
    if place is None:
        return ""
    said = " ".join(str(fault).split()).partition(". ")[0]
    return (
        f"JAX cannot differentiate this: it moves the creation of the Ref at {place} out of the loop or function, and"
        " leaves the writes to the Ref inside. Initialize the Ref with a value that depends on an input `x` of the "
        "loop's"
        " body or of the function, such as `jax.new_ref(0 * x)`, or return the written value as an output (LD023)."
        f" {type(fault).__name__}: {said}"
    )


def _noting_makers(make: Callable[..., Any], notes: RefNotes) -> Callable[..., Any]:
    def made(self: Any, trace: Any, *args: Any, **kwargs: Any) -> Any:
        results = make(self, trace, *args, **kwargs)  # the jaxpr, and one or two others, depending on the release
        outer = getattr(trace, "parent_trace", None)
        if type(outer).__name__ != "EvalTrace" and _makes_refs(results[0]):
            notes.are_split = True
        return results

    return made


@dataclass(slots=True, eq=False)
class _Accesses:
    """The accesses of one Ref that matter for a move, while JAX partially evaluates a jaxpr: it runs some accesses at
    once and stages the others, which means that they run later.
    """

    made: SourceLine | None = None
    staged_write: "_Access | None" = None
    """The last write to the Ref that JAX has staged, so that it runs later."""
    staged_read: "_Access | None" = None


@dataclass(frozen=True, slots=True)
class _Access:
    line: SourceLine | None
    kernel: str
    call: str


def _following(process: Callable[..., Any], notes: RefNotes) -> Callable[..., Any]:
    """Wraps `JaxprTrace.process_primitive`, in which JAX runs a primitive at once if it knows all operands, and
    otherwise stages it for later; the wrapper records the accesses of each Ref and notes those whose order changes.
    """

    accesses: dict[tuple[int, int], _Accesses] = {}
    kept: list[Any] = []  # keeps the objects alive whose ids are keys of `accesses`

    def processed(self: Any, primitive: Any, tracers: Any, params: Any, /, *rest: Any) -> Any:
        results = process(self, primitive, tracers, params, *rest)
        try:
            if primitive.name in _MAKES:
                value = results.pval.get_known() if hasattr(results, "pval") else results
                kept.extend((self, value))
                here = notes.describe(primitive, params, source_info_util.current())
                accesses[id(self), id(value)] = _Accesses(here.line)
                notes.made = here.line
            elif kept and primitive.name not in _ENDS:
                values = [self.to_jaxpr_tracer(one).pval.get_known() for one in tracers]
                is_staged = any(value is None for value in values)
                for number, value in enumerate(values):
                    if known := accesses.get((id(self), id(value))):
                        info, place = source_info_util.current(), number - len(values)
                        for here, is_read, is_done in _list_accesses(primitive, params, info, place, notes):
                            _follow(known, here, notes, is_read=is_read, is_staged=is_staged and not is_done)
        except Exception as fault:
            notes.doubt(fault)
        return results

    return processed


def _follow(accesses: _Accesses, here: _Access, notes: RefNotes, *, is_read: bool, is_staged: bool) -> None:
    """Remembers the access `here` of a Ref if it is staged for later. If it runs at once although an earlier access of
    the Ref is staged, and one of the two is a write, notes that JAX moved an access.
    """
    if is_staged and is_read:
        accesses.staged_read = here
    elif is_staged:
        accesses.staged_write = here
    elif accesses.staged_write is not None:
        notes.add(_describe(RefMove.OUT_OF_LOOP, accesses.made, here, accesses.staged_write))
    elif accesses.staged_read is not None and not is_read:
        notes.add(_describe(RefMove.OUT_OF_LOOP, accesses.made, accesses.staged_read, here))


def _list_accesses(
    primitive: Any, params: Mapping[str, Any], source_info: Any, place: int, notes: RefNotes
) -> Iterator[tuple[_Access, bool, bool]]:
    """Yields each access that a primitive makes to the Ref: (access, whether it is a read, whether it runs at once in
    any case).

    If the primitive runs functions, these are the accesses inside them; JAX hoists a read out of such a function if the
    read needs nothing but the Ref. place: position of the Ref among the primitive's operands, counted from the end, so
    negative.
    """
    functions = _list_functions(primitive, params)
    if not functions:
        yield notes.describe(primitive, params, source_info), primitive.name in _READS, False
    for one in _list_inner_uses(functions, place):
        is_read = one.primitive.name in _READS
        yield _describe_equation(one, notes), is_read, is_read and _has_fixed_place(one)


def _list_uses(equations: Iterable[Any], reference: Any) -> Iterator[Any]:
    """Yields the equations that access the Ref, including those inside the functions that get the Ref as an operand."""
    for one in equations:
        for number, operand in enumerate(one.invars):
            if operand is reference:
                functions = _list_functions(one.primitive, one.params)
                yield from _list_inner_uses(functions, number - len(one.invars)) if functions else (one,)


def _list_inner_uses(functions: Iterable[Any], place: int) -> Iterator[Any]:
    """Yields the equations that access the Ref inside these functions of one equation.

    place: position of the Ref, counted from the end because a function's last parameters are its equation's last
    operands.
    """
    for jaxpr in functions:
        if -place <= len(jaxpr.invars) and _is_ref(jaxpr.invars[place]):
            yield from _list_uses(jaxpr.eqns, jaxpr.invars[place])


def _list_functions(primitive: Any, params: Mapping[str, Any]) -> list[Any]:
    """Returns the jaxprs that a primitive with these parameters runs; none for a kernel call."""
    if primitive.name in PRIMITIVES:
        return []
    found: list[Any] = []
    values: list[Any] = list(params.values())
    for value in values:
        several: list[Any] = [*value] if type(value) in (tuple, list) else [value]
        inner: list[Any] = [getattr(one, "jaxpr", one) for one in several]
        found += [jaxpr for jaxpr in inner if hasattr(jaxpr, "eqns")]
    return found


def _hoisting(hoist: Callable[..., Any], notes: RefNotes) -> Callable[..., Any]:
    """Wraps JAX's function that hoists operations from a loop, and notes each Ref that the program makes anew in each
    iteration but that JAX makes once, before the loop.
    """

    def hoisted(jaxpr: Any, known_consts: Any, *args: Any, **kwargs: Any) -> Any:
        result = hoist(jaxpr, known_consts, *args, **kwargs)
        try:
            new_jaxpr, new_consts = result[0], result[1]
            own = {id(value) for value in known_consts}
            for variable, value in zip(new_jaxpr.invars, new_consts, strict=False):
                if _is_ref(variable) and id(value) not in own:
                    _note_shared(jaxpr, new_jaxpr, variable, notes)
        except Exception as fault:
            notes.doubt(fault)
        return result

    return hoisted


def _note_shared(jaxpr: Any, staged: Any, variable: Any, notes: RefNotes) -> None:
    """Notes that JAX moved a Ref out of a loop, with the first write and the first read of it that stay in the loop's
    body (a kernel call may be both); notes nothing if no iteration can see what another one wrote.

    jaxpr: the loop's body as it was, in which the Ref is made. staged: the body that remains. variable: the input by
    which `staged` gets the Ref.
    """
    uses = [*_list_uses(staged.eqns, variable)]
    writes = [one for one in uses if one.primitive.name not in _READS]
    reads = [one for one in uses if one.primitive.name in _READS]
    made = next((one for one in jaxpr.eqns if one.primitive.name in _MAKES), None)
    if uses and _overwrites_all(uses[0]):
        return  # nothing reads what other iterations wrote
    are_fixed = all(one.primitive.name == "swap" and _is_dropped(one) and _has_fixed_place(one) for one in writes)
    if reads and are_fixed and uses[-len(reads) :] == reads:
        return  # each iteration writes the same elements and reads them afterwards
    if writes and (reads or any(one.primitive.name in PRIMITIVES for one in writes)):
        line = None if made is None else _describe_equation(made, notes).line
        read, write = (_describe_equation(one, notes) for one in ((reads or writes)[0], writes[0]))
        notes.add(_describe(RefMove.SHARED, line, read, write))


def _has_fixed_place(use: Any) -> bool:
    """Whether a read of a Ref, or a store into one, has constant indices, so that it accesses the same elements each
    time.
    """
    indices = use.invars[2 if use.primitive.name == "swap" else 1 :]
    return all(hasattr(one, "val") for one in indices)


def _overwrites_all(use: Any) -> bool:
    """Whether this access replaces all elements of a Ref without reading them: it is a store into the whole Ref, and
    the old contents that a store returns are unused.
    """
    is_whole = use.primitive.name == "swap" and use.invars[0].aval.shape == use.invars[1].aval.shape
    return is_whole and _is_dropped(use)


def _is_dropped(store: Any) -> bool:
    """Whether the old contents of the Ref, which JAX's store operation returns, are unused, so that the store reads
    nothing.
    """
    return all(type(result).__name__ == "DropVar" for result in store.outvars)


def _comparing(split: Callable[..., Any], notes: RefNotes) -> Callable[..., Any]:
    """Wraps the function by which JAX splits a jaxpr into the known part and the part that it computes again; notes
    each write that the second part lacks although a read after the write is in it.
    """

    def compared(jaxpr: Any, *args: Any, **kwargs: Any) -> Any:
        result = split(jaxpr, *args, **kwargs)
        try:
            _compare(jaxpr, result[1], notes)
        except Exception as fault:
            notes.doubt(fault)
        return result

    return compared


def _compare(body: Any, staged: Any, notes: RefNotes) -> None:
    for making in body.eqns:
        if making.primitive.name not in _MAKES:
            continue
        reference = making.outvars[0]
        kept = [one for one in staged.eqns if reference in one.invars]
        reads = [one for one in kept if one.primitive.name in _READS]
        gone = [
            one
            for one in body.eqns
            if any(operand is reference for operand in one.invars)
            and one.primitive.name not in _READS | _ENDS
            and not any(other.primitive is one.primitive and _is_same(other, one) for other in kept)
        ]
        for write in gone:
            after = [one for one in reads if _comes_after(body, write, one)]
            if after:
                made, read = (_describe_equation(one, notes) for one in (making, after[0]))
                for one in _list_uses([write], reference):
                    if one.primitive.name not in _READS:
                        notes.add(_describe(RefMove.DROPPED, made.line, read, _describe_equation(one, notes)))


def _is_same(one: Any, other: Any) -> bool:
    return one.source_info is other.source_info or (bool(one.outvars) and one.outvars == other.outvars)


def _comes_after(body: Any, write: Any, read: Any) -> bool:
    places = {id(one): number for number, one in enumerate(body.eqns)}
    found = [number for number, one in enumerate(body.eqns) if _is_same(one, read) and one.primitive is read.primitive]
    return any(number > places[id(write)] for number in found)


def _describe(kind: RefMove, made: SourceLine | None, read: _Access, write: _Access) -> MovedRef:
    return MovedRef(kind=kind, made=made, read=read.line, write=write.line, kernel=write.kernel, call=write.call)


def _describe_equation(equation: Any, notes: RefNotes) -> _Access:
    return notes.describe(equation.primitive, equation.params, equation.source_info)


def _makes_refs(jaxpr: Any) -> bool:
    return any(one.primitive.name in _MAKES for one in jaxpr.eqns)


def holds_refs(jaxpr: Any) -> bool:
    """Returns whether a function of the program creates a Ref. Refs inside of kernels do not count."""
    return any(
        one.primitive.name in _MAKES | _OLD_MAKES
        or (one.primitive.name not in PRIMITIVES and any(map(holds_refs, list_jaxprs(one.params))))
        for one in jaxpr.eqns
    )


def _is_ref(variable: Any) -> bool:
    return type(variable.aval).__name__ == "AbstractRef"


def _find_frames() -> Any:
    """Returns JAX's class for a function that is being traced; None in versions before about 0.5, which have another
    class.
    """
    frames = getattr(_partial_eval(), "JaxprStackFrame", None)
    return frames if hasattr(frames, "to_jaxpr") else None


def _find_loops() -> Any:
    try:
        return importlib.import_module("jax._src.lax.control_flow.loops")
    except ImportError:
        return None


def _find_discharge() -> Callable[..., Any] | None:
    try:
        library = importlib.import_module("jax._src.state.discharge")
    except ImportError:
        return None
    return getattr(library, "discharge_state", None)


def _partial_eval() -> Any:
    return importlib.import_module("jax._src.interpreters.partial_eval")
