"""The helper processes in which NVRTC and LLVM run."""
