"""Mutates the input of ligerdiag; each mutation comes with a claim about the report afterwards.

`python -m tools.claims --count 10000 --seed S` compiles some cases and runs the mutations with the numbers S, S + 1, …;
it counts contradicted claims, tracebacks, inputs that take more time or memory than allowed, and JSON output that does
not meet its schema. CI runs as many as fit into half a minute, `make fuzz-nightly` 50,000.

    driver, trial      run mutations of all kinds and count; the outcome of one
    seeds              the good inputs
    mutation, judging  a claim, and the verdicts that contradict it

    pairs, tally       pairs of modules as protobuf, and how one is mutated:
    metadata             names, tags, places in the source: the program keeps its meaning
    buffers              the buffer assignment: bytes are lost
    kernels              kernel calls: writes, aliases, opcodes are lost
    payloads, stores   the Triton IR in a call, and the arguments of its stores, found independently
    texts              HLO text, as people paste and edit it, and as printed from mutated pairs
    artifact_kind      artifact folders
    cache_kind         caches
    baseline_kind      baselines
    json_damage        JSON of any of these

A kind of input is a class with `run`: it mutates a copy of a good input and judges it in this process, through the
entry point of the command that reads it. Code that a command runs in a child process (jaxlib's parser, Triton's) runs
in one here, too.
"""
