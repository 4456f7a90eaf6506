"""A typed, read-only view of XLA's HLO protobuf: module, computation, instruction, shape, schedule, buffers."""
