"""The inside of a padded, sharded field is overwritten, and the partitioner gathers fields for it.

Structure: four devices; a donated field has 7 cells of halo at both ends, and its inside is set to another sharded array.
The two are split at different cells.

The right answer: each device has nearly all cells that it needs; a few cells at its borders come from a neighbour. Gathering
the field or the new inside, 128 KiB, on each device is superfluous: the update is the line. The cured twin has the halo of
each device apart from its own cells, so that the update needs no other device.
"""

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case

CELLS, HALO, DEVICES = 1024, 8, 4


def update(field, inside):
    inside = inside * 0.5
    return {"field": field.at[HALO:-HALO].set(inside)}  # at: update_line


def update_own(field, inside):
    return {"field": field.at[:, HALO:-HALO].set(0.5 * inside)}


MESH = {"x": DEVICES}
OWN = CELLS // DEVICES
REPORT = Report(
    link="https://github.com/EnzymeAD/Enzyme-JAX/issues/596",
    year=2025,
    versions="Reactant of 2025, sharded ocean model",
    kind=Kind.SILENT_COPY,
    reported="updates of the inside of sharded fields leave all-gathers that XLA does not remove",
    finds=Wrong(at=("update_line",)),
)
BAD = Case(
    name="enzyme_jax_596",
    params=("bad",),
    function=update,
    args=(
        Arg(shape=(CELLS + 2 * HALO, 128), donate=True, partition=("x",)),
        Arg(shape=(CELLS, 128), partition=("x",)),
    ),
    mesh=MESH,
)
CURED = Case(
    name="enzyme_jax_596",
    params=("cured",),
    function=update_own,
    args=(
        Arg(shape=(DEVICES, OWN + 2 * HALO, 128), donate=True, partition=("x",)),
        Arg(shape=(DEVICES, OWN, 128), partition=("x",)),
    ),
    mesh=MESH,
)
CASES = (BAD, CURED)
