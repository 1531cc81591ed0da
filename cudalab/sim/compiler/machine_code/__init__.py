"""Mapping between a kernel's PTX and the machine code that ptxas generated from it.

``cubin`` reads opcodes, widths and PTX lines of the instructions in ``Program.cubin``, ``assembly`` maps them to the
program's PTX, ``listing`` lists the PTX instructions by basic block and by source line.
"""
