"""XLA's opcodes and the traits of each.

Opcodes are spelled as in xla/hlo/ir/hlo_opcode.h. XLA refuses a module with any other opcode, and so does the parser;
otherwise an unknown instruction would count as an instruction that only reads, and a `Custom-Call` as no kernel.

A trait holds for every instruction with the opcode. An opcode that means different things to the author's program and to
XLA's schedule has a trait for each. For example, a barrier is an operation of the program (BARRIER), and launches nothing in
the schedule (LAUNCHES_NOTHING). ADR 11 lists pairs of similar traits and the reason why each pair is not one trait. Compute
a set once, `_SILENT = having(Trait.LAUNCHES_NOTHING)`: a lookup is then as cheap as in any frozenset.
"""

from enum import Flag, auto


class Trait(Flag):
    """The traits of opcodes. A trait is true of every instruction that has an opcode with the trait. In the docstrings of
    the members, "the instruction" is any such instruction.
    """

    # where a value stands
    FORWARDS = auto()
    """The instruction's result is operand 0 by another name: the same buffer, leaf by leaf."""
    TAKES_ELEMENT = auto()
    """The instruction's result is an element of the operand's tuple, by another name."""
    MAKES_TUPLE = auto()
    """The instruction's result is a tuple whose elements are the operands, by another name."""
    LAUNCHES_NOTHING = auto()
    """XLA emits no code for the instruction in a schedule: it reads no bytes and writes none."""
    HANDS_ON = auto()
    """The instruction's result has the value of operand 0, or, for a `done`, the value that its start has computed."""
    BARRIER = auto()
    """The instruction is an operation of the program that passes operand 0 on, leaf by leaf, and only orders other
    operations; the schedule runs nothing for it.
    """
    HAS_BUFFER = auto()
    """The buffer assignment always gives the instruction a buffer of its own, if a schedule runs the instruction."""
    IN_PLACE = auto()
    """XLA lets result k share the buffer of operand k if nobody needs the operand afterwards."""
    DECLARES_ALIASES = auto()
    """The instruction may declare which operand a result shares its buffer with."""
    NEEDS_OPERAND = auto()
    """The instruction must have an operand: ligerdiag follows the first one without a check, so the parser refuses a
    module where there is none.
    """

    # what a value is
    NO_OPERATION = auto()
    """The instruction is not an operation of the author: the translation from StableHLO adds it, without a tag (the
    number that each operation of the author gets).
    """
    TOKEN = auto()
    """The instruction's result is a token, which holds no value that could be wrong; an author may write such an
    operation.
    """
    FROM_NOTHING = auto()
    """The instruction's value needs no input: the program contains it."""
    ONE_ARRAY = auto()
    """The instruction's result is one array, and never a tuple."""
    ARRAY_OF_ARRAYS = auto()
    """The instruction's result is one array where all operands are arrays; in older XLA, operands and result could also
    be tuples.
    """
    ELEMENTWISE = auto()
    """Element i of the result depends on element i of each operand, where the dimensions are the same."""
    MOVES = auto()
    """The result holds only elements of operand 0: rearranged, repeated, selected or exchanged among devices."""
    JOINS = auto()
    """The result holds only elements of the operands: one next to the other, or one inside of the other."""
    REARRANGES = auto()
    """The instruction may need an element of an operand for any element of the result, not only for the one in the same
    place.
    """
    TAKES_PART = auto()
    """The result holds elements of operand 0, and may leave others out."""
    CASTS = auto()
    """The result holds operand 0's elements in another element type."""
    SAME_ELEMENTS = auto()
    """The result has each of the operand's elements once; if the layout allows, XLA makes operand and result one value.
    """
    OTHER_FORM = auto()
    """The result is the operand converted, negated or rearranged; MLIR may merge two such operations, or remove both if
    they cancel out.
    """
    KEEPS_SCALAR = auto()
    """If all of operand 0's elements are the same number, all elements of the result are that number, too, apart from a
    change of dtype.
    """
    NO_NEW_NAN = auto()
    """A NaN in the result comes from the operand, or is a constant of the program: the instruction makes no new one."""
    VIEW = auto()
    """In replay, NumPy computes the instruction without touching the elements, or the result is a single number."""
    ROUNDS = auto()
    """A floating point result of the instruction is rounded to its dtype, so another order of evaluation changes it by
    rounding errors.
    """
    COMMUTES = auto()
    """The instruction's two operands may be exchanged (HloOpcodeIsBinaryCommutative in XLA)."""
    MULTIPLIES = auto()
    """Operand 0 is a factor of the result; XLA may move other factors to where computing them is cheaper."""
    ADDS = auto()
    """The operands are terms of the result, which XLA may add in another order."""
    EXCHANGED = auto()
    """XLA may exchange the instruction's two operands, and transpose the result (GemmFusionSwapOperands,
    xla/backends/gpu/transforms/gemm_fusion_swap_operands.cc).
    """
    CHOOSES = auto()
    """If the two operands that hold values are one value, the result is that value, as for `and`, `maximum` or
    `select`.
    """
    STEPS = auto()
    """The result takes only a few different values, so a small change of the operand rarely changes it."""
    BOUNDS = auto()
    """The result is an operand, or a bound if the operand exceeds it."""
    RESULT_NOT_SAVED = auto()
    """JAX's derivative of the operation needs at most the operands; the derivatives of others, such as `exponential` or
    `tanh`, save the result.
    """
    LIBRARY_CALL = auto()
    """XLA may rewrite the instruction to a custom call of cuBLAS or cuDNN."""
    REDUCES = auto()
    """The instruction's work is proportional to the number of its operands' elements."""
    SORTS = auto()
    """The instruction's work is more than linear in the number of elements."""
    BROADCAST_IN_DIM = auto()
    """A StableHLO broadcast_in_dim is translated to instructions with this trait."""
    UNNAMED = auto()
    """MLIR adds such instructions without a name, so an instruction with this opcode may have no tag (number of the
    author's operation).
    """

    # devices and time
    COLLECTIVE = auto()
    """The instruction exchanges values with other devices, or begins to."""
    PEER_TO_PEER = auto()
    """The instruction sends to one other device, or receives from one: it is asynchronous, although its name has no
    `start`.
    """
    OPERANDWISE = auto()
    """The instruction is a collective that may have several operands, as XLA's combiners make them: result k then
    depends on operand k alone.
    """
    GATHERS = auto()
    """The instruction is a collective that brings elements from other devices unchanged."""
    NAMES_DEVICES = auto()
    """The instruction is a collective that may have the attribute `use_global_device_ids`."""
    REPLAYED = auto()
    """The replay computes the instruction across devices."""
    START = auto()
    """The instruction begins an asynchronous operation, which a `done` ends."""
    STARTS_WITH_OPERANDS = auto()
    """The instruction is a start whose result is a tuple of operands and results, not the results alone."""
    RESULT_FIRST = auto()
    """The instruction begins an asynchronous operation and returns a tuple of which element {0}, not {1}, is the result
    of the `done`.
    """
    STARTS_COMPUTATION = auto()
    """The instruction is a start that runs a computation of its own."""
    UPDATE = auto()
    """The instruction comes between a start and its `done`; it reads nothing and does nothing."""
    DONE = auto()
    """The instruction waits for a start: it reads nothing that the start has not read."""

    HAS_EFFECTS = auto()
    """The instruction has an effect besides its result: XLA keeps the order of all such instructions."""

    # computations
    CONTROL_FLOW = auto()
    """The instruction runs computations, and does nothing itself."""
    CALLEE_TAKES_OPERANDS = auto()
    """The instruction runs one computation, whose parameter k is operand k."""
    RUNS_SCHEDULED = auto()
    """The instruction runs computations that have a schedule and buffers of their own."""


T = Trait
_HIDDEN = T.LAUNCHES_NOTHING | T.VIEW
_ARITHMETIC = T.ELEMENTWISE | T.ONE_ARRAY
_ROUNDED = _ARITHMETIC | T.ROUNDS
_FORWARDED = T.FORWARDS | T.NEEDS_OPERAND | _HIDDEN
_BARRIER = _FORWARDED | T.BARRIER | T.HANDS_ON | T.KEEPS_SCALAR
_FORM = T.ONE_ARRAY | T.OTHER_FORM | T.RESULT_NOT_SAVED
_SAME = T.ELEMENTWISE | T.SAME_ELEMENTS | T.OTHER_FORM | T.KEEPS_SCALAR | T.NO_NEW_NAN
_PRODUCT = T.ONE_ARRAY | T.RESULT_NOT_SAVED | T.LIBRARY_CALL | T.MULTIPLIES | T.ROUNDS | T.REARRANGES
_SHAPED = _FORM | T.MOVES | T.VIEW | T.NO_NEW_NAN
_RUNS = T.CONTROL_FLOW | T.RUNS_SCHEDULED
_EXCHANGE = T.COLLECTIVE | T.REPLAYED
_COMBINED = _EXCHANGE | T.OPERANDWISE
_DONE = T.DONE | T.NEEDS_OPERAND | T.VIEW

_ROWS: tuple[tuple[Trait, str], ...] = (
    # arithmetic
    (_ARITHMETIC, "abs complex count-leading-zeros imag mulhi popcnt real"),
    (_ARITHMETIC, "shift-left shift-right-arithmetic shift-right-logical"),
    (_ARITHMETIC | T.STEPS, "ceil compare floor is-finite round-nearest-afz round-nearest-even sign"),
    (_ARITHMETIC | T.BOUNDS, "clamp"),
    (_ROUNDED, "acos acosh asin asinh atan2 atanh cbrt cosh cosine erf exponential exponential-minus-one log"),
    (
        _ROUNDED,
        "log-plus-one logistic power reduce-precision remainder rsqrt sine sinh sqrt stochastic-convert tan tanh",
    ),
    (_ROUNDED | T.MULTIPLIES, "divide"),
    (_ROUNDED | T.ADDS | T.RESULT_NOT_SAVED, "subtract"),
    (_ARITHMETIC | T.RESULT_NOT_SAVED | T.OTHER_FORM, "negate"),
    (_ARITHMETIC | T.OTHER_FORM, "not"),
    (_ROUNDED | T.ADDS | T.COMMUTES | T.RESULT_NOT_SAVED, "add"),
    (_ROUNDED | T.MULTIPLIES | T.COMMUTES | T.RESULT_NOT_SAVED, "multiply"),
    (_ARITHMETIC | T.COMMUTES | T.CHOOSES, "and or"),
    (_ARITHMETIC | T.COMMUTES | T.CHOOSES | T.BOUNDS, "maximum minimum"),
    (_ARITHMETIC | T.COMMUTES, "xor"),
    (T.ARRAY_OF_ARRAYS | T.ELEMENTWISE | T.CHOOSES | T.RESULT_NOT_SAVED, "select"),
    (_ROUNDED | T.CASTS | T.OTHER_FORM | T.KEEPS_SCALAR | T.NO_NEW_NAN | T.RESULT_NOT_SAVED, "convert"),
    (T.ONE_ARRAY | T.OTHER_FORM, "bitcast-convert"),
    # the same elements
    (_SAME | T.ARRAY_OF_ARRAYS | T.MOVES | T.HAS_BUFFER, "copy"),
    (_SHAPED | T.KEEPS_SCALAR | T.BROADCAST_IN_DIM | T.UNNAMED | T.REARRANGES, "broadcast"),
    (_SHAPED | _SAME | T.BROADCAST_IN_DIM, "reshape"),
    (_SHAPED | T.SAME_ELEMENTS, "transpose"),
    (_SHAPED | T.REARRANGES | T.TAKES_PART, "slice"),
    (_SHAPED | T.REARRANGES, "reverse"),
    (T.ONE_ARRAY | T.MOVES | T.RESULT_NOT_SAVED | T.NO_NEW_NAN | T.REARRANGES | T.TAKES_PART, "dynamic-slice"),
    (T.ONE_ARRAY | T.IN_PLACE | T.RESULT_NOT_SAVED | T.JOINS, "dynamic-update-slice"),
    (T.ONE_ARRAY | T.RESULT_NOT_SAVED | T.REARRANGES | T.TAKES_PART, "gather"),
    (T.ONE_ARRAY | T.RESULT_NOT_SAVED | T.JOINS | T.REARRANGES, "concatenate pad"),
    (_PRODUCT | T.EXCHANGED, "dot"),
    (_PRODUCT, "convolution"),
    (T.ONE_ARRAY | T.FROM_NOTHING | T.RESULT_NOT_SAVED, "iota"),
    (T.IN_PLACE | T.REDUCES | T.RESULT_NOT_SAVED | T.ROUNDS, "scatter"),
    (T.REDUCES | T.ROUNDS, "map reduce"),
    (T.REDUCES | T.ROUNDS | T.REARRANGES, "reduce-window select-and-scatter"),
    (T.SORTS, "sort topk"),
    (T.ROUNDS, "batch-norm-grad batch-norm-inference batch-norm-training cholesky scan"),
    (T.ROUNDS | T.REARRANGES, "fft ragged-dot scaled-dot"),
    (T.ROUNDS, "triangular-solve"),
    (T(0), "dynamic-reshape get-dimension-size set-dimension-size"),
    (T.HAS_EFFECTS, "infeed outfeed rng rng-bit-generator rng-get-and-update-state"),
    (T.VIEW, "partition-id replica-id"),
    # other names of an existing value
    (_FORWARDED | _SAME | T.ARRAY_OF_ARRAYS, "bitcast"),
    (_BARRIER | T.RESULT_NOT_SAVED | T.UNNAMED, "opt-barrier"),
    (_BARRIER, "domain add-dependency"),
    (_HIDDEN | T.TAKES_ELEMENT | T.NO_OPERATION | T.NEEDS_OPERAND | T.RESULT_NOT_SAVED, "get-tuple-element"),
    (_HIDDEN | T.MAKES_TUPLE | T.NO_OPERATION, "tuple"),
    (_HIDDEN | T.NO_OPERATION | T.RESULT_NOT_SAVED, "parameter"),
    (_HIDDEN | T.NO_OPERATION | T.RESULT_NOT_SAVED | T.FROM_NOTHING | T.HAS_BUFFER | T.NO_NEW_NAN, "constant"),
    (_HIDDEN | T.TOKEN, "after-all"),
    # devices
    (_COMBINED | T.NAMES_DEVICES | T.ELEMENTWISE, "all-reduce"),
    (_COMBINED | T.NAMES_DEVICES | T.GATHERS | T.MOVES, "all-gather"),
    (_COMBINED | T.NAMES_DEVICES, "reduce-scatter"),
    (_COMBINED | T.GATHERS | T.MOVES | T.REARRANGES, "collective-permute"),
    (_COMBINED | T.MOVES, "collective-broadcast"),
    (_EXCHANGE | T.GATHERS | T.MOVES | T.REARRANGES, "all-to-all"),
    (T.COLLECTIVE, "collective-reduce"),
    (T.COLLECTIVE | T.REARRANGES, "ragged-all-to-all"),
    (T.COLLECTIVE | T.PEER_TO_PEER | T.RESULT_FIRST, "recv send"),
    # asynchronous pairs
    (_COMBINED | T.NAMES_DEVICES | T.START | T.IN_PLACE, "all-reduce-start"),
    (_COMBINED | T.NAMES_DEVICES | T.START | T.STARTS_WITH_OPERANDS | T.GATHERS, "all-gather-start"),
    (_COMBINED | T.START | T.STARTS_WITH_OPERANDS | T.GATHERS | T.REARRANGES, "collective-permute-start"),
    (_DONE, "all-reduce-done recv-done send-done"),
    (_DONE | T.GATHERS, "all-gather-done collective-permute-done"),
    (T.START | T.NEEDS_OPERAND | T.RESULT_FIRST, "copy-start"),
    (_DONE | T.HANDS_ON, "copy-done async-done"),
    (T.FORWARDS | T.HANDS_ON | T.UPDATE | T.NEEDS_OPERAND | T.DECLARES_ALIASES | T.VIEW, "async-update"),
    # computations
    (T.START | T.STARTS_COMPUTATION | T.RUNS_SCHEDULED | T.CALLEE_TAKES_OPERANDS | T.DECLARES_ALIASES, "async-start"),
    (T.CALLEE_TAKES_OPERANDS | T.DECLARES_ALIASES | T.HAS_BUFFER, "fusion"),
    (_RUNS | T.CALLEE_TAKES_OPERANDS | T.RESULT_NOT_SAVED | T.UNNAMED, "call"),
    (_RUNS | T.NEEDS_OPERAND | T.RESULT_NOT_SAVED, "while"),
    (_RUNS | T.NEEDS_OPERAND, "conditional"),
    (T.DECLARES_ALIASES | T.HAS_BUFFER | T.RESULT_NOT_SAVED, "custom-call"),
)

TRAITS = {opcode: traits for traits, opcodes in _ROWS for opcode in opcodes.split()}
"""Maps each opcode to all of its traits. Every opcode of XLA has one entry."""
OPCODES = frozenset(TRAITS)
_BITS = {opcode: traits.value for opcode, traits in TRAITS.items()}


def having(*traits: Trait) -> frozenset[str]:
    """Returns the opcodes that have at least one of `traits`."""
    wanted = sum({trait.value for trait in traits})
    return frozenset([opcode for opcode, bits in _BITS.items() if bits & wanted])


def strip_phase(opcode: str) -> str:
    """Returns the opcode of the operation that an asynchronous instruction starts or ends: `all-gather` for
    `all-gather-done`. Returns any other opcode unchanged.
    """
    return opcode.removesuffix("-start").removesuffix("-done")
