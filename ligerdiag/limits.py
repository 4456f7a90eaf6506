"""Every bound on what a file of a stranger may cost, by name and with its reason.

1. Time is a processor's time: how busy the machine is does not count.
2. Memory and time grow with the bytes that a file takes on disk: holes of a sparse file cost its maker nothing.
3. What takes more than a bound ends in one line, and costs that module alone.
"""

MAXIMUM_FILE_BYTES = 2 << 30
"""Of a file with a module, and of what it unpacks to: protobuf's own limit for one message."""
MAXIMUM_JSON_BYTES = 64 << 20
"""Of one record of an artifact; the largest that was seen has a few MiB."""
MAXIMUM_TEXT_BYTES = 1 << 30
"""Of HLO text that is given to jaxlib's parser."""

MAXIMUM_UNPACKED_RATIO = 200
"""Bytes that a gzip file may unpack to, for each of its own: real dumps shrink to a tenth or so."""
SMALL_UNPACKED_BYTES = 16 << 20
"""The most that any gzip file may unpack to."""
MAXIMUM_GZIP_MEMBERS = 1 << 16
"""bgzip, which makes the most, makes one of each 64 KiB: 4 GiB. An empty one has 20 bytes and costs a decompressor."""

MAXIMUM_FOLDER_FILES = 500_000
"""Below one path. A large job's dump with all its passes has a tenth."""
MAXIMUM_FOLDER_DEPTH = 12
MAXIMUM_ARTIFACT_FILES = 20_000
"""That a manifest may name; the snapshots of all passes of a large module are some hundreds."""

BASE_MEMORY_BYTES = 3 << 29
"""The memory that any module may use: 1.5 GiB."""
MEMORY_PER_BYTE = 100
"""A protobuf of a few bytes a message takes fifty times its size once it is parsed, and an analysis more."""
BASE_SECONDS = 4.0
"""The processor time that any module may use."""
SECONDS_PER_BYTE = 0.2 / (1 << 20)

TEXT_BASE_MEMORY_BYTES = 2 << 30
"""Memory of the process that parses HLO text, beside what the text needs: jaxlib's libraries take most of it."""
TEXT_MEMORY_PER_BYTE = 40
TEXT_BASE_SECONDS = 20.0
TEXT_SECONDS_PER_BYTE = 1 / (1 << 20)
"""Ten times what jaxlib's parser was seen to take."""

SANDBOX_FILE_BYTES = 4 << 30
"""Of a file that a sandboxed process writes: a text for the parser, a kernel's effects, its answer."""
SANDBOX_OPEN_FILES = 1024
"""One that follows many kernels has a few for each core."""
SANDBOX_ANSWER_BYTES = 1 << 30
"""Of one module's report; the HLO text of a page is nearly all of it."""
SANDBOX_SPARE_SECONDS = 5.0
"""Of a processor, for a process that does not end itself when its time is up: it is in C++ and is killed after these."""
WALL_SECONDS = 120.0
"""The wall time that a sandboxed process may take, asleep or not, beside `WALL_FACTOR` times its processor time.
Waiting for a kernel's effects counts."""
WALL_FACTOR = 30.0
