"""Random nestings of JAX's transformations around `call_in_place`, each compared with plain jnp."""
