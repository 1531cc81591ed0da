"""CuPy's array functions and operators, as far as ``_core`` does not need them itself: grids, products, reductions,
selection, questions about arrays, and other numeric functions."""
