"""The rules: each file holds one hazard's id, page, examples and check. `registry` lists them."""
