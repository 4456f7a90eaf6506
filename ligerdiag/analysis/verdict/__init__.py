"""The room where verdicts are decided, and nowhere else: "is it stale?"

  `verdicts`             the front door: takes both evaluations, hands out a record for every output; `judge`
  `reads`                the same for every read of an overwritten value; `judge_reads`
  `comparison`           the definitions of stale, clobbered, latent, unknown and fresh, and one verdict out of several
Behind these: where a wrong value begins (`first_divergence`), what each operand is (`operands`), what XLA takes for one
value (`one_value`), which outputs a wrong value reaches and who is blamed (`blame`, `output_reachability`), and what cannot
be told (`ambiguity_search`, `schedule_alone`).
"""
