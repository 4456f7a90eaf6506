"""Mutates artifact folders: damages, swaps, removes or replaces files, with or without a matching manifest."""

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random

from ligerdiag.artifacts.artifact import (
    KERNEL_CALLS,
    MANIFEST,
    OPTIMIZED,
    PROVENANCE,
    READERS,
    REQUIRED,
    THUNKS,
    UNOPTIMIZED,
    write_manifest,
)
from ligerdiag.artifacts.cache import Cache
from ligerdiag.dumps.text_worker import Translator
from ligerdiag.hlo.xla_pb2 import HloProto
from ligerdiag.inspection.module_inspection import InspectionRequest, ModuleInspector
from tools.claims.json_damage import damage, damage_text
from tools.claims.judging import Judged
from tools.claims.mutation import MUTATIONS, Claim
from tools.claims.pairs import Pair
from tools.claims.trial import Described, Trial, describe, make_trial

_JSON = (KERNEL_CALLS, READERS, PROVENANCE)
_HUGE_FILE = 3 << 30
"""Bytes of a sparse file."""

type _Apply = Callable[["ArtifactKind", Path, Random], Sequence[Claim]]


class ArtifactKind:
    """Mutates copies of folders that `check` made."""

    name = "artifacts"

    def __init__(self, folders: Sequence[Path], cache: Cache) -> None:
        self.folders = folders
        self.detail = ""
        """The details that the name of the mutation does not give."""
        self._translator = Translator(cache=cache)
        self._inspector = ModuleInspector(
            request=InspectionRequest(neighbourhoods=True),
            translate=self._translator.translate,
            effects_cache=cache.root / "effects",
        )
        self._before = {folder: self._judge(folder).judged for folder in folders}

    def run(self, random: Random) -> Trial:
        """Runs one mutation of one folder."""
        source = random.choice(self.folders)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name) / "artifact"
            shutil.copytree(source, folder)
            apply = random.choices(list(_FOLDERS), list(_FOLDERS.values()))[0]
            claims: Sequence[Claim] = ()
            self.detail = ""
            with suppress(IndexError, KeyError, ValueError):  # the damage itself cannot be written
                claims = apply(self, folder, random)
            is_mended = random.random() < 0.8
            if is_mended and apply not in _OF_MANIFEST:
                _mend_manifest(folder)
            described = self._judge(folder)
        words = f"{source.name[:8]} {apply.__name__} {self.detail}".rstrip() + (
            "" if is_mended else " (manifest as it was)"
        )
        return make_trial(words, self._before[source], described, claims)

    def close(self) -> None:
        """Ends the workers."""
        self._translator.__exit__(None, None, None)

    def _judge(self, folder: Path) -> Described:
        outcome = self._inspector.inspect_artifact(folder)
        if outcome.judged is None:
            return Described(judged=Judged(refusal="no report"))
        return describe(outcome.judged)


def damage_json(kind: ArtifactKind, folder: Path, random: Random) -> Sequence[Claim]:
    """Gives values of one record a wrong type or a huge size, or removes them. Less may then be known of calls that XLA
    did not see.
    """
    del kind
    path = folder / random.choice(_JSON)
    path.write_text(damage(path.read_text(), random), errors="surrogatepass")
    return (Claim.NOT_BETTER,)


def enlarge_numbers(kind: ArtifactKind, folder: Path, random: Random) -> Sequence[Claim]:
    """Makes numbers of one record huge, negative or absent."""
    del kind
    path = folder / random.choice(_JSON)
    path.write_text(damage(path.read_text(), random, only_numbers=True))
    return (Claim.NOT_BETTER,)


def damage_json_text(kind: ArtifactKind, folder: Path, random: Random) -> Sequence[Claim]:
    """Makes one record invalid or different JSON."""
    del kind
    path = folder / random.choice((*_JSON, MANIFEST))
    path.write_text(damage_text(path.read_text(), random), errors="surrogatepass")
    return (Claim.NOT_BETTER,)


def damage_manifest(kind: ArtifactKind, folder: Path, random: Random) -> Sequence[Claim]:
    """Changes values, versions or names in the manifest."""
    del kind
    path = folder / MANIFEST
    text = path.read_text()
    if random.random() < 0.6:
        text = damage(text, random)
    else:
        top = json.loads(text)
        name = random.choice(("../x", "/etc/passwd", "a\0b", "x" * 5000, "passes/\ud800", ".", "", "passes/../../x"))
        top["files"][name] = random.choice(({"size": 0, "sha256": ""}, {"size": 1 << 70, "sha256": "0" * 64}, None))
        text = json.dumps(top)
    path.write_text(text, errors="surrogatepass")
    return (Claim.NOT_BETTER,)


def change_version(kind: ArtifactKind, folder: Path, random: Random) -> Sequence[Claim]:
    """Changes the version that wrote the folder."""
    del kind
    for name in random.choice(((MANIFEST,), (PROVENANCE,), (MANIFEST, PROVENANCE))):
        top = json.loads((folder / name).read_text())
        top["format_version"] = random.choice((0, 1, 3, 5, -1, 1 << 70, 4.0, "4", None, True))
        (folder / name).write_text(json.dumps(top))
    return (Claim.NOT_BETTER,)


def swap_files(kind: ArtifactKind, folder: Path, random: Random) -> Sequence[Claim]:
    """Replaces some files by those of another artifact."""
    other = random.choice(kind.folders)
    names = random.sample(REQUIRED, random.choice((1, 1, 2)))
    for name in names:
        shutil.copyfile(other / name, folder / name)
    is_program = bool({*names} & {"as_written.hlo.pb", UNOPTIMIZED, OPTIMIZED})
    return () if is_program else (Claim.NOT_BETTER,)  # it is ambiguous which of the two programs is meant


def remove_file(kind: ArtifactKind, folder: Path, random: Random) -> Sequence[Claim]:
    """Removes or empties a file. An empty program as written means that there is none: XLA's is read instead."""
    del kind
    path = folder / random.choice((*REQUIRED, MANIFEST))
    path.unlink()
    if random.random() < 0.4:
        path.write_bytes(b"")
    return (Claim.NOT_BETTER,)


def replace_file(kind: ArtifactKind, folder: Path, random: Random) -> Sequence[Claim]:
    """Replaces a file by a link, a pipe, a folder, a device or a sparse file."""
    path = folder / random.choice((*REQUIRED, MANIFEST))
    other = random.choice(kind.folders) / path.name
    path.unlink()
    match random.randrange(6):
        case 0:
            path.symlink_to(other)
        case 1:
            path.symlink_to(random.choice(("/dev/zero", "/dev/stdin", "/etc/passwd", path.name, "nowhere")))
        case 2:
            os.mkfifo(path)
        case 3:
            path.mkdir()
        case 4:
            with path.open("wb") as file:
                file.truncate(random.choice((_HUGE_FILE, 100 << 20)))
        case _:
            os.link(other, path)
    return ()  # another artifact's program is another program


def cut_file(kind: ArtifactKind, folder: Path, random: Random) -> Sequence[Claim]:
    """Cuts a file off, or makes it too long."""
    del kind
    path = folder / random.choice(REQUIRED)
    data = path.read_bytes()
    path.write_bytes(data[: random.randrange(len(data) + 1)] if random.random() < 0.7 else data + random.randbytes(50))
    return () if path.suffix == ".pb" else (Claim.NOT_BETTER,)


def change_thunks(kind: ArtifactKind, folder: Path, random: Random) -> Sequence[Claim]:
    """Changes the numbers of launches, or removes lines: an order that the file does not give does not exist."""
    del kind
    path = folder / THUNKS
    lines = path.read_text().split("\n")
    for _ in range(random.choice((1, 3))):
        lines[random.randrange(len(lines))] = random.choice(
            ("", "x" * 1000, *lines, "001: kCommandBuffer", "999999999999999999999: kCopy", "\0")
        )
    path.write_text("\n".join(lines))
    return (Claim.NOT_BETTER,)


def mutate_modules(kind: ArtifactKind, folder: Path, random: Random) -> Sequence[Claim]:
    """Mutates the modules as a pair; the program is the one as written."""
    program = folder / "as_written.hlo.pb"
    program = program if program.stat().st_size else folder / UNOPTIMIZED
    protos = [HloProto.FromString((folder / OPTIMIZED).read_bytes()), HloProto.FromString(program.read_bytes())]
    pair = Pair(folder.name, protos[0], protos[1])
    one = random.choices(list(MUTATIONS.values()), [one.weight for one in MUTATIONS.values()])[0]
    kind.detail = one.name
    with suppress(IndexError, KeyError, ValueError):
        one.apply(pair, random)
    (folder / OPTIMIZED).write_bytes(pair.optimized.SerializeToString())
    program.write_bytes(pair.program.SerializeToString())
    return (one.claim,)


_FOLDERS: dict[_Apply, float] = {
    damage_json: 6,
    enlarge_numbers: 4,
    damage_json_text: 3,
    damage_manifest: 3,
    change_version: 1,
    swap_files: 4,
    remove_file: 2,
    replace_file: 3,
    cut_file: 2,
    change_thunks: 2,
    mutate_modules: 6,
}
"""Relative frequency of each mutation."""
_OF_MANIFEST = (damage_manifest, change_version)
_SMALL = 200 << 20


def _mend_manifest(folder: Path) -> None:
    """Updates the sums in the manifest, as somebody who made the folder on purpose would."""
    if (folder / MANIFEST).is_file() and not (folder / MANIFEST).is_symlink():
        large = any(path.is_file() and path.stat().st_size > _SMALL for path in folder.iterdir())
        if not large and not any(path.is_char_device() for path in folder.iterdir()):
            (folder / MANIFEST).unlink()  # it may be a link to a good artifact's
            write_manifest(folder)
