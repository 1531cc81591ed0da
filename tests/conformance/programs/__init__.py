"""The conformance programs, one module a family. They use ``cp``, ``cudart`` and ``driver`` of cudalab, and NumPy."""
