"""Decides verdicts; no other package does.

- `verdicts.judge` takes both evaluations (of the program and of the schedule), and returns the verdict on every output.
- `reads.judge_reads` returns the verdict on every read of an overwritten value.
- `comparison` defines stale, clobbered, latent, unknown and fresh, and combines several verdicts into one.

The other modules work for these. They list the edges that are compared (`compared_edges`), and find which operation each
operand comes from (`operand_provenance`), values that XLA merges (`merged_values`), where a wrong value begins
(`first_divergence`), which outputs a wrong value reaches and which read caused it (`blame`, `output_reachability`),
kernels that are not responsible (`bystanders`), and outputs that cannot be decided because a fact is unknown
(`ambiguity_search`) or the program as written is missing (`schedule_alone`).
"""
