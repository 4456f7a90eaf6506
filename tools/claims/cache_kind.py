"""Mutates caches: swaps entries, cuts them off, renames them, replaces them, or makes them writable by others.

A look-up afterwards finds the same as before, or nothing; `inspect` with such a cache reports the same as without one.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from ligerdiag.artifacts.artifact import Artifact, load_artifact
from ligerdiag.artifacts.cache import INDEX, Cache
from ligerdiag.codec import Json
from ligerdiag.effects.effects_worker import EFFECTS_WORKER
from ligerdiag.errors import InputError
from ligerdiag.inspection.compilation import inspect_artifact
from ligerdiag.model.report import Identity, Judged
from ligerdiag.toolchains.toolchain import current_toolchain
from ligerdiag.workers.pool import Pool
from tools.claims.json_damage import damage, damage_text
from tools.claims.trial import Described, Outcome, Trial, describe

EFFECTS, ARTIFACTS = "effects", "artifacts"
_FOLDERS = (EFFECTS, EFFECTS, INDEX, ARTIFACTS)
_KEPT_ARTIFACTS = 3
_KEPT_ANSWERS = 6


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Known:
    """The results of the good cache."""

    artifacts: dict[str, Artifact]
    answers: list[tuple[Json, Json]]


class CacheKind:
    """Mutates copies of a small cache."""

    name = "caches"

    def __init__(self, root: Path, scratch: Path) -> None:
        self._root = _take_part(root, scratch / "cache-seed")
        self._readers = Pool(toolchain=current_toolchain(), jobs=1, timeout=600.0, module=EFFECTS_WORKER)
        self._known = _look_up_all(self._root)
        self._subjects = [load_artifact(folder) for folder in sorted((self._root / ARTIFACTS).iterdir())]
        for artifact in self._subjects:  # an effect that the good cache lacks would be computed each time
            self._inspect(artifact, self._root)
        self._before = {artifact.directory.name: self._inspect(artifact, None).judged for artifact in self._subjects}

    def run(self, random: Random) -> Trial:
        """Runs one mutation of some entries of one folder of the cache."""
        identity = random.choice(self._subjects)
        with tempfile.TemporaryDirectory() as name:
            root = Path(name) / "cache"
            shutil.copytree(self._root, root)
            os.chmod(root, 0o700)
            folder = root / random.choice(_FOLDERS)
            apply = random.choice(_MUTATIONS)
            apply(folder, random)
            words = f"{folder.name} {apply.__name__}"
            try:
                cache = Cache(root)
            except InputError:
                return Trial(words=words, outcome=Outcome.REFUSED)
            others = _find_others(cache, self._known)
            described = self._inspect(identity, root)
        before, after = self._before[identity.directory.name], described.judged
        if (before.outputs, before.refusal, before.notes) != (after.outputs, after.refusal, after.notes):
            others = (*others, f"{before} -> {after}")
        return Trial(
            words=words,
            outcome=Outcome.OTHER if others else Outcome.AS_BEFORE,
            contradictions=others,
            invalid=described.invalid,
            tracebacks=described.tracebacks,
        )

    def close(self) -> None:
        """Ends the workers."""
        self._readers.close()

    def _inspect(self, artifact: Artifact, root: Path | None) -> Described:
        made = artifact.provenance
        effects = None if root is None else root / EFFECTS
        inspection = inspect_artifact(artifact, effects_cache=effects, readers=self._readers)
        identity = Identity(id=made.case_id, target=made.target, toolchain=made.toolchain)
        return describe(Judged(identity=identity, result=inspection, seconds=0.5))


def _take_part(root: Path, into: Path) -> Path:
    """Returns a cache with a few entries of each folder."""
    shutil.rmtree(into, ignore_errors=True)
    for folder, number in ((ARTIFACTS, _KEPT_ARTIFACTS), (INDEX, _KEPT_ANSWERS), (EFFECTS, 100)):
        (into / folder).mkdir(parents=True, mode=0o700)
        for path in sorted((root / folder).iterdir())[:number]:
            (shutil.copytree if path.is_dir() else shutil.copyfile)(path, into / folder / path.name)
    os.chmod(into, 0o700)
    return into


def _look_up_all(root: Path) -> _Known:
    cache = Cache(root)
    artifacts = {path.name: cache.find_artifact(path.name) for path in sorted((root / ARTIFACTS).iterdir())}
    questions = [json.loads(path.read_text())["question"] for path in sorted((root / INDEX).glob("*.json"))]
    answers = [(question, cache.find_answer(question)) for question in questions]
    assert all(artifacts.values())
    return _Known(
        artifacts={key: one for key, one in artifacts.items() if one is not None},
        answers=[(question, answer) for question, answer in answers if answer is not None],
    )


def _find_others(cache: Cache, known: _Known) -> tuple[str, ...]:
    """Returns the look-ups with a result that was not there before."""
    found: list[str] = []
    for key, was in known.artifacts.items():
        now = cache.find_artifact(key)
        if now is not None and (now.provenance, now.kernel_calls) != (was.provenance, was.kernel_calls):
            found.append(f"another artifact under {key[:8]}")
        elif now is not None and now.optimized.read_bytes() != was.optimized.read_bytes():
            found.append(f"another program under {key[:8]}")
    for question, was in known.answers:
        now = cache.find_answer(question)
        if now is not None and now != was:
            found.append(f"another answer to {json.dumps(question)[:60]}")
    return tuple(found)


def _choose(folder: Path, random: Random) -> Path:
    return random.choice(sorted(folder.iterdir()))


def _choose_file(folder: Path, random: Random) -> Path:
    path = _choose(folder, random)
    return random.choice(sorted(path.iterdir())) if path.is_dir() else path


def swap_entries(folder: Path, random: Random) -> None:
    """Exchanges the names of all entries."""
    paths = sorted(folder.iterdir())
    names = [path.name for path in paths]
    random.shuffle(names)
    for path in paths:
        path.rename(path.with_name(f"x{path.name}"))
    for path, name in zip(paths, names, strict=True):
        path.with_name(f"x{path.name}").rename(path.with_name(name))


def copy_entry(folder: Path, random: Random) -> None:
    """Replaces one entry by another."""
    one, other = _choose(folder, random), _choose(folder, random)
    if one == other:
        return
    if other.is_dir():
        shutil.rmtree(other)
        shutil.copytree(one, other)
    else:
        shutil.copyfile(one, other)


def cut_entry(folder: Path, random: Random) -> None:
    """Cuts a file off."""
    path = _choose_file(folder, random)
    data = path.read_bytes()
    path.write_bytes(data[: random.randrange(len(data) + 1)])


def change_key(folder: Path, random: Random) -> None:
    """Changes the key in a file, or its name."""
    path = _choose_file(folder, random)
    if random.random() < 0.5:
        path.rename(path.with_name("0" * 64 + path.suffix))
    else:
        digits = [path.name[:8], folder.parent.name, "key", "question"]
        path.write_bytes(path.read_bytes().replace(random.choice(digits).encode(), b"0" * 8))


def damage_entry(folder: Path, random: Random) -> None:
    """Changes the JSON or makes it invalid. An owner who changes the result under its own key is out of scope."""
    path = _choose_file(folder, random)
    if path.suffix != ".json":
        return
    if random.random() < 0.5:
        path.write_text(damage_text(path.read_text(), random), errors="surrogatepass")
        return
    if folder.name != INDEX:  # at this level a cached result has no format of its own
        path.write_text(damage(path.read_text(), random), errors="surrogatepass")


def replace_by_other(folder: Path, random: Random) -> None:
    """Replaces an entry, or one of its files, by a link, a pipe, a folder or a hole."""
    path = _choose_file(folder, random) if random.random() < 0.7 else _choose(folder, random)
    other = _choose(folder, random)
    aside = folder.parent / "aside"
    path.rename(aside)
    match random.randrange(5):
        case 0:
            path.symlink_to(random.choice((other, "/dev/zero", "/etc/passwd", path.name)))
        case 1:
            os.mkfifo(path)
        case 2:
            path.mkdir(exist_ok=True)
        case 3:
            with path.open("wb") as file:
                file.truncate(3 << 30)
        case _:
            path.symlink_to(aside)


def open_to_others(folder: Path, random: Random) -> None:
    """Makes the folder, or all of it, writable by the group or by everybody."""
    for path in random.choice(((folder,), (folder.parent,), (folder, folder.parent))):
        os.chmod(path, random.choice((0o770, 0o777, 0o722, 0o720)))


_MUTATIONS: Sequence[Callable[[Path, Random], None]] = (
    swap_entries,
    copy_entry,
    cut_entry,
    change_key,
    damage_entry,
    damage_entry,
    replace_by_other,
    open_to_others,
)
