"""Machine code that ptxas generated from a kernel's PTX, and how often warps execute it.

``cubin`` reads functions and their table of lines from ``Program.cubin``, ``instruction`` what each instruction reads,
writes and waits for (``instruction_set``: its encoding), ``control_flow`` their basic blocks; ``assembly`` maps them to
the program's PTX, ``listing`` lists the PTX instructions by basic block and by source line.
"""
