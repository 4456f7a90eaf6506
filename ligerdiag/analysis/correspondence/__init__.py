"""Which instruction of the optimized module is which operation of the program."""
