"""Mutations of what `inspect` reads, each with a claim about the verdict afterwards.

`python -m tools.claims SEED COUNT FOLDER…` mutates the pairs of modules (before and after the optimizations) of real
compilations, COUNT of them by the random numbers SEED, SEED + 1, …, and judges each in this process through the entry of
`inspect`. The folders are dumps or artifacts. CI runs what fits into half a minute, the nightly job 50,000.

    pairs       what is mutated, and how a folder becomes one
    mutation    a mutation: its name, its claim, how often it is drawn
    metadata    mutations of names, tags, places in the source: the program means the same
    buffers     mutations of the buffer assignment: bytes are lost
    kernels     mutations of kernel calls: writes, aliases, opcodes are lost
    judging     verdicts before and after, and which of them contradict a claim

Another kind of input (Triton IR, an artifact's folder, a cache) is a module beside these, with a `Mutation` for each change.
"""
