"""The variations of a compile, beside case, target and toolchain."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ligerdiag.compile.job import Flag


@dataclass(frozen=True, slots=True, kw_only=True)
class Variation:
    """How a compile differs from the default; with no fields given, it does not."""

    flags: Mapping[str, Flag] = field(default_factory=dict[str, Flag])
    """Compiler options, over the toolchain's; `xla_dump_hlo_pass_re` leaves `Artifact.passes`."""
    ties: tuple[str, ...] = ()
    """Ids of `Artifact.readers`: a trivial operation ties each of these to its kernel. Their order means nothing."""
