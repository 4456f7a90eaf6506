"""The results of a device, on their way to the process that compares them: one file per draw, in NumPy's own format.

Arrays are kept as bytes: the format does not know bfloat16. The reader knows their dtype and shape.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from ligerdiag.errors import ArtifactError

type Array = np.ndarray[Any, Any]


def write_results(directory: Path, draw: int, results: Mapping[str, Array]) -> None:
    """One file for this draw."""
    flat = {
        f"output{number}": np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        for number, array in enumerate(results.values())
    }
    np.savez(directory / f"draw-{draw}.npz", allow_pickle=False, **flat)


def load_results(directory: Path, draw: int, like: Mapping[str, Array]) -> dict[str, Array]:
    """Returns the results of this draw by output name, each in the dtype and shape of its namesake in `like`.

    Raises ArtifactError when they do not fit.
    """
    try:
        with np.load(directory / f"draw-{draw}.npz", allow_pickle=False) as file:
            found: dict[str, Array] = {}
            for number, (name, array) in enumerate(like.items()):
                found[name] = file[f"output{number}"].view(array.dtype).reshape(array.shape)
            return found
    except (OSError, EOFError, BadZipFile, KeyError, ValueError) as error:
        raise ArtifactError(f"the results of draw {draw} cannot be read: {error}") from error
