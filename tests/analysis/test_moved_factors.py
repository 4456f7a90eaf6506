"""What XLA reads in the place of a scaled value, when it has moved the scale to the other factor of a product."""

from tests.analysis.by_hand import Program, judge, verdicts
from tests.hlo.building import array, tuple_of

THREE = tuple_of(array(4), array(4), array(4))


def build(*, opcode: str = "multiply", moved: bool = False, reads: str = "scaled", exchanged: bool = False) -> Program:
    """The program `scaled * cos(scaled)` behind a kernel that overwrites `scaled`, which is `product * factor`.

    moved: as XLA computes it, `reads * (cos(scaled) * factor)`. `product` has a reader of its own, and so carries nothing
    of the scaled value.
    """
    program = Program()
    entry = program.computation("entry")
    x = program.op(entry, "parameter")
    factor = program.op(entry, "constant")
    product = program.op(entry, "negate", x, tag=1)
    scaled = program.op(entry, opcode, product, factor, tag=2)
    sums = program.kernel(entry, scaled, tag=3)
    cosine = program.op(entry, "cosine", scaled, tag=4)
    beside = program.op(entry, "abs", product, tag=6)
    part = program.add(entry, "slice", (product,))
    part.metadata.op_name = "f/negate#ld1"  # of a product that XLA has joined with another one
    program.place(part)
    value = {"scaled": scaled, "product": product, "part": part}[reads]
    if moved:
        other = program.add(entry, opcode, (cosine, factor))
        other.metadata.op_name = f"f/{opcode}#ld5"  # XLA has made it
        program.place(other)
    else:
        other = cosine
    result = program.op(entry, opcode, *((other, value) if exchanged else (value, other)), tag=5)
    program.op(entry, "tuple", sums, beside, result, shape=THREE)
    program.place(x, product, scaled, sums, cosine, beside, result)
    return program


def find(schedule: Program, opcode: str = "multiply") -> list[str]:
    return verdicts(judge(build(opcode=opcode), schedule, "sums", "beside", "result"))


def test_the_product_itself_is_not_what_the_kernel_leaves_in_the_scaled_one() -> None:
    assert find(build(moved=True, reads="product")) == ["fresh", "fresh", "stale"]


def test_nor_is_its_part_of_what_xla_computes_in_one() -> None:
    assert find(build(moved=True, reads="part")) == ["fresh", "fresh", "stale"]


def test_factors_may_be_exchanged_besides() -> None:
    assert find(build(moved=True, reads="part", exchanged=True)) == ["fresh", "fresh", "stale"]


def test_terms_are_moved_as_well() -> None:
    assert find(build(opcode="add", moved=True, reads="part"), "add") == ["fresh", "fresh", "stale"]


def test_the_scaled_value_is_right_with_another_factor_than_it_was_meant_to_have() -> None:
    assert find(build(moved=True, reads="scaled"))[2] == "latent"
    assert find(build())[2] == "latent"


def build_exchanged(*, is_exchanged: bool = False) -> Program:
    """A product with what a kernel has overwritten, which is made of two operations and has no tag of its own.

    is_exchanged: as XLA computes it, its operands exchanged, and what the kernel overwrites named after one of the two.
    """
    program = Program()
    entry = program.computation("entry")
    x, y = program.op(entry, "parameter"), program.op(entry, "parameter", parameter_number=1)
    first, second = program.op(entry, "negate", x, tag=1), program.op(entry, "abs", x, tag=2)
    both = program.op(entry, "maximum", first, second, tag=2 if is_exchanged else "")
    sums = program.kernel(entry, both, tag=3)
    result = program.op(entry, "dot", *((y, both) if is_exchanged else (both, y)), tag=4)
    program.op(entry, "tuple", sums, result, shape=tuple_of(array(4), array(4)))
    program.place(x, y, first, second, both, sums, result)
    for allocation in program.proto.buffer_assignment.buffer_allocations[:2]:
        allocation.is_entry_computation_parameter = True
    return program


def test_where_nothing_says_which_operand_is_which_none_is_wrong() -> None:
    context = judge(build_exchanged(), build_exchanged(is_exchanged=True), "sums", "result")
    assert verdicts(context) == ["fresh", "latent"]
