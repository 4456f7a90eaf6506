"""Draws random nestings of JAX's transformations around `call_in_place`, and compares each with plain jnp."""
