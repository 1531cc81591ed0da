"""The opcodes of the PTX ISA as data, and which of them the assembler takes for the simulated device's architecture.

``syntax`` holds patterns, one or more for each instruction of the PTX ISA, wider than the ISA where that is shorter to
write. ``forms`` turns a pattern into opcodes with operands. ``record`` asks NVIDIA's assembler (nvJitLink, which needs
no GPU) about each of them and keeps its answers in ``accepted.npz``; ``test_completeness`` holds them against the
lowering table: an opcode that the assembler takes must run, or be refused by name.
"""
