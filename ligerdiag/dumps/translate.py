"""Parent side of the text worker: HLO text in, protobuf out. A worker is started when the first text comes."""

from contextlib import ExitStack
from pathlib import Path
from typing import Self

from ligerdiag.artifacts.cache import Cache
from ligerdiag.artifacts.store import ScratchFolder
from ligerdiag.dumps.content import has_entry
from ligerdiag.dumps.text_worker import TextRequest, make_text_job
from ligerdiag.errors import ArtifactError, CompileError, LigerdiagError
from ligerdiag.toolchains.toolchain import current_toolchain
from ligerdiag.untrusted_files import (
    MAXIMUM_FILE_BYTES,
    MAXIMUM_TEXT_BYTES,
    TEXT_BASE_MEMORY_BYTES,
    TEXT_BASE_SECONDS,
    TEXT_MEMORY_PER_BYTE,
    TEXT_SECONDS_PER_BYTE,
    read_untrusted,
)
from ligerdiag.workers.pool import Pool
from ligerdiag.workers.process import WorkerDied

TEXT_WORKER = "ligerdiag.dumps.text_worker"


class Translator:
    """Turns HLO text into protobuf; a context manager."""

    def __init__(self, *, cache: Cache, timeout: float | None = None) -> None:
        """timeout: seconds of processor time for one text; None means by its size."""
        self._cache = cache
        self._timeout = timeout
        self._stack = ExitStack()
        self._pool: Pool | None = None
        self._scratch: Path | None = None
        self._memory = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def translate(self, data: bytes, name: str) -> bytes:
        """Returns the serialized HloModuleProto of HLO text, UTF-8. name: of the file, for messages.

        Raises ArtifactError when the text is not one that jaxlib parses, or when parsing it ends the worker.
        """
        if len(data) > MAXIMUM_TEXT_BYTES:
            raise ArtifactError(
                f"`{name}` has {len(data)} bytes of text, more than {MAXIMUM_TEXT_BYTES}: give a protobuf"
            )
        try:
            data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ArtifactError(f"`{name}` is no HLO text: {error.reason} at byte {error.start}") from error
        if not has_entry(data):
            raise ArtifactError(f"`{name}` has no ENTRY computation: it is cut off, or a part of a module")
        pool, scratch = self._start(len(data))
        text, proto = scratch / "module.txt", scratch / "module.pb"
        seconds = self._timeout or TEXT_BASE_SECONDS + TEXT_SECONDS_PER_BYTE * len(data)
        try:
            text.write_bytes(data)
            job = make_text_job(TextRequest(text=str(text), proto=str(proto), seconds=seconds), "this text")
            pool.submit(job).result()
            return read_untrusted(proto, MAXIMUM_FILE_BYTES)
        except CompileError as error:
            if isinstance(error.__cause__, WorkerDied) and "SIGPROF" in str(error.__cause__):
                raise ArtifactError(f"`{name}`: parsing it was ended after {seconds:.3g} s of a processor") from error
            raise ArtifactError(f"`{name}`: {error}") from error
        except OSError as error:
            raise LigerdiagError(f"cannot use the directory `{scratch}`: {error.strerror or error}") from error
        except BaseException:
            self._drop()  # its worker may still be at this text
            raise
        finally:
            text.unlink(missing_ok=True)
            proto.unlink(missing_ok=True)

    def _start(self, size: int) -> tuple[Pool, Path]:
        """Returns a pool whose worker may have as much memory as a text of that size needs."""
        needed = TEXT_BASE_MEMORY_BYTES + TEXT_MEMORY_PER_BYTE * size
        if self._scratch is None:
            folder = ScratchFolder()
            self._stack.callback(folder.remove)
            self._scratch = folder.path
        if needed > self._memory:
            self._drop()
        if self._pool is None:
            self._memory = needed
            toolchain = current_toolchain()
            self._pool = self._stack.enter_context(
                Pool(cache=self._cache, toolchain=toolchain, jobs=1, module=TEXT_WORKER, memory_limit=needed)
            )
        return self._pool, self._scratch

    def _drop(self) -> None:
        """Ends the worker; the next text gets another."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None
