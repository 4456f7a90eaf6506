"""Who reads an array after a kernel has overwritten it: in the function of the call, and in the functions that call that."""
