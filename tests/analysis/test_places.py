"""Places give the locations of a schedule's values in memory."""

from ligerdiag.analysis.evaluation.label_memory import Places
from ligerdiag.hlo.dataflow import Positions
from ligerdiag.hlo.parse import parse_hlo
from tests.hlo.building import Builder, find


def test_a_value_without_storage_has_its_own_negative_number() -> None:
    builder = Builder()
    entry = builder.computation("entry")
    x = builder.add(entry, "parameter", parameter_number=0)
    builder.define(x, offset=0)
    one, two = builder.add(entry, "negate", [x]), builder.add(entry, "negate", [x])
    both = builder.add(entry, "add", [one, two])
    module, buffers = parse_hlo(builder.bytes())
    assert buffers is not None
    places = Places(buffers, Positions(module, buffers))
    (first,), (second,) = places.locate(find(module, one)), places.locate(find(module, two))
    assert max(first, second) < 0
    assert first != second
    assert places.list_operands(find(module, both)) == ((0, first), (1, second))
    assert places.list_defined(find(module, one)) == (first,)
    assert places.list_defined(find(module, x)) == places.locate(find(module, x)) != (first,)
