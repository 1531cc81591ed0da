"""Random CUDA C++ kernels against a reference interpreter, and damaged sources that must end in an error."""
