"""What the compiler finds out about a function before it writes code, one pass a module.

In the order in which they run (``codegen.analysis`` calls them):

1. ``inlining``           calls of functions that wait for other threads are replaced by the function's body
   ``contraction``        products and sums that the assembler fuses become ``fma``
2. ``control_flow``       basic blocks; guards become branches; suspension points end blocks (``suspension``)
   ``polling``            loops that wait for memory to change get a suspension point
3. ``rematerialisation``  literals, and values that are recomputed instead of kept
4. ``liveness``           which of the other registers are live where
5. ``regions``            the code between suspension points, and each thread's frame
6. ``pointer_roots``      which allocation a pointer belongs to, and how it is aligned

``operands`` says which registers an instruction reads and writes.
"""
