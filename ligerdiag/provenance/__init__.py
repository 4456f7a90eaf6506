"""Finds out which values of the program an array of the schedule equals, who made it, and on what evidence this is known.

`Identification(program, optimized).identify(instruction, index)` returns a `ValueIdentity`; `identity` has the records and
`identification` the witnesses. `value_numbers` says which operations of the program have one value. No module here knows
dependence sets: whether a value is the right *version* is a question of `ligerdiag.analysis`.
"""
