"""The machine code that ptxas made of a kernel, set against its PTX.

``cubin`` reads opcodes, widths and PTX lines of the instructions in ``Program.cubin``, ``assembly`` sets them against
the program's PTX, ``listing`` lists the PTX instructions by basic block and by source line.
"""
