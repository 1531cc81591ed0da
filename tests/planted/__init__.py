"""Planted bugs: kernels with one mistake each, which the sanitizer has to find; mended, it has to be silent."""
