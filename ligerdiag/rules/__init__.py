"""The rules: each file holds one rule with its id, page, examples and check; `registry` finds them all."""
