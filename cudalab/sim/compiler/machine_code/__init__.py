"""The machine code that ptxas made of a kernel, set against its PTX."""
