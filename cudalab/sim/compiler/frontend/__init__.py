"""CUDA C++ to PTX with NVRTC: headers, options, targets, signatures, diagnostics and hints."""
