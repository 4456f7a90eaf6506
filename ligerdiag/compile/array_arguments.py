"""Parent side: arguments of a live function, in which arrays become records of what they are, see `array_records`."""

import io
from collections.abc import Mapping
from typing import Any

from ligerdiag.compile.array_records import MAXIMUM_VALUE_BYTES, is_array, record_array
from ligerdiag.compile.function_pickler import FunctionPickler
from ligerdiag.compile.rebuild import build_arg


class ArgumentPickler(FunctionPickler):
    """Pickles any pytree of arrays; `meshes` has those that they lie on."""

    def __init__(self, stream: io.BytesIO, by_value: frozenset[str]) -> None:
        super().__init__(stream, by_value)
        self.meshes: list[Mapping[str, int]] = []
        self._float_bytes = MAXIMUM_VALUE_BYTES

    def reducer_override(self, obj: Any) -> Any:
        """Returns the record of an array, to be pickled instead of it."""
        if not is_array(obj):
            return super().reducer_override(obj)
        record = record_array(obj, self._float_bytes)
        if record.mesh:
            self.meshes.append(record.mesh)
        if record.values is not None and "float" in record.fields["dtype"]:
            self._float_bytes -= len(record.values)
        return build_arg, (record.fields, record.draw, record.values)
