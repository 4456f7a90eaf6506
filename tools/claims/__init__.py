"""Mutations of what ligerdiag reads, each with a claim about what it says afterwards.

`python -m tools.claims --count 10000 --seed S` compiles some cases and runs the mutations with the numbers S, S + 1, …; it
counts what contradicts a claim, tracebacks, what takes more time or memory than its bound, and JSON output that does not
meet its schema. CI runs what fits into half a minute, `make fuzz-nightly` 50,000.

    driver, trial      runs mutations of all kinds and counts; what became of one
    seeds              the good inputs
    mutation, judging  a claim, and what contradicts it

    pairs, tally       pairs of modules as protobuf, and how one is mutated:
    metadata             names, tags, places in the source: the program means the same
    buffers              the buffer assignment: bytes are lost
    kernels              kernel calls: writes, aliases, opcodes are lost
    payloads, stores   the Triton IR in a call, and which arguments it stores through, told another way
    texts              HLO text, as people paste and edit it, and as it is printed of mutated pairs
    artifact_kind      artifact folders
    cache_kind         caches
    baseline_kind      baselines
    json_damage        JSON of any of these

A kind of input is a class with `run`: it mutates a copy of a good input and judges it in this process, through the entry of
the command that reads it. What runs in a child there (jaxlib's parser, Triton's) does so here.
"""
