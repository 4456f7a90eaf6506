"""A Mosaic GPU kernel that overwrites its operand, by plain stores or by TMA."""
