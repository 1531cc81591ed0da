"""CUDA C++ to PTX with NVRTC: headers, options, targets, signatures, diagnostics and hints.

What NVRTC read of CUDA's large headers is kept for the next compile with the same beginning and options
(``precompiled``): written while the helper is idle, in a folder of that helper, never in jailed ones. ``targets`` says
which architectures there are and which PTX a device refuses: ``cuModuleLoadData`` answers 218 (target) or 222
(version), as an H200 does. The learner's ``-arch`` reaches NVRTC behind the device's own, as in CuPy: the last one
counts, and an unknown one is an error.
"""
