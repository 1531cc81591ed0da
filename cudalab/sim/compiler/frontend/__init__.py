"""Front end: CUDA C++ to PTX with NVRTC; headers, options, targets, signatures, diagnostics and hints.

CUDA's large headers are precompiled for the next compile with the same initial includes and options (``precompiled``):
while the helper is idle, in a folder of that helper, never in jailed ones. ``targets`` defines the known architectures
and the PTX that a device refuses: ``cuModuleLoadData`` answers 218 (target) or 222 (version), as an H200 does. As in
CuPy, the device's own ``-arch`` overrides the learner's, but an unknown one is an error.
"""
