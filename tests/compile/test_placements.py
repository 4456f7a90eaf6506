"""Placements of shards, by partition id."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ligerdiag.artifacts.call_records import Placement, compute_placements
from ligerdiag.codec import FieldError, decode_record
from ligerdiag.errors import CompileError
from ligerdiag.hlo.parse import load_hlo

PROGRAMS = Path(__file__).parent / "programs"


def test_the_shard_of_a_device_has_its_partition_id() -> None:
    script = PROGRAMS / "partition_ids.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen["partition_id"]
    assert seen["ids"] == [[number] for number in range(8)]


def test_an_artifact_records_the_shards_of_each_device(compile_selected) -> None:
    artifact = compile_selected("sharded.py")["split"].artifact
    x, y = artifact.provenance.input_placements
    assert x.shape == (8, 6)
    # the first dimension is split over `b`, then over `a`; partition ids go through `a`, then through `b`
    assert x.shards == tuple(((2 * b + a, 2 * b + a + 1), (0, 6)) for a in range(2) for b in range(4))
    assert y.shards == tuple(((0, 4), (b, b + 1)) for _ in range(2) for b in range(4))


def test_the_schedule_has_the_shapes_of_the_shards(compile_selected) -> None:
    artifact = compile_selected("sharded.py")["split"].artifact
    provenance = artifact.provenance
    module, _ = load_hlo(artifact.optimized)
    entry = module.entry
    parameters = {i.proto.parameter_number: i for i in entry.instructions if i.opcode == "parameter"}
    for number, placement in zip(provenance.parameters, provenance.input_placements, strict=True):
        assert shard_shapes(placement) == {tuple(parameters[number].proto.shape.dimensions)}
    shapes = [tuple(shape.dimensions) for shape in entry.root.proto.shape.tuple_shapes]
    assert [shard_shapes(placement) for placement in provenance.output_placements] == [{shape} for shape in shapes]
    assert [placement.shape for placement in provenance.output_placements] == [(8, 6), (4, 4), ()]


def test_one_device_holds_the_whole_array(doubling) -> None:
    artifact = doubling["pair"].artifact
    whole = Placement(shape=(16, 16), shards=(((0, 16), (0, 16)),))
    assert artifact.provenance.input_placements == (whole, whole)
    assert artifact.provenance.output_placements == (whole, whole)


@pytest.mark.parametrize("shard", [[[0, 3]], [[0, 1], [0, 2]], [[1, 0]], [[0]]])
def test_a_shard_outside_its_array_is_refused(shard: list[object]) -> None:
    with pytest.raises(FieldError):
        decode_record(Placement, {"shape": [2], "shards": [shard]})


def shard_shapes(placement: Placement) -> set[tuple[int, ...]]:
    return {tuple(stop - start for start, stop in shard) for shard in placement.shards}


def test_an_unpartitioned_program_is_a_compile_error_and_does_not_end_the_worker() -> None:
    with pytest.raises(CompileError, match="XLA does not report how an array of shape \\[4096\\] is split"):
        compute_placements([(4096,)], [object()], [])
