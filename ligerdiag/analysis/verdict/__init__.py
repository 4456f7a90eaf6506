"""Decides verdicts, and is the only package that does.

- `verdicts` takes both evaluations and returns a record for every output; `judge`
- `reads` returns the same for every read of an overwritten value; `judge_reads`
- `comparison` defines stale, clobbered, latent, unknown and fresh, and combines several verdicts into one

Behind these: where a wrong value begins (`first_divergence`), which operation each operand comes from
(`operand_provenance`), values that XLA merges (`merged_values`), which outputs a wrong value reaches and which read
caused it (`blame`, `output_reachability`), and questions that cannot be answered (`ambiguity_search`,
`schedule_alone`).
"""
