"""The helper processes in which NVRTC and LLVM run.

A compiler may crash, hang or take all memory, so it never runs in the learner's process: ``helper`` starts, bounds and
replaces processes that run ``worker``, on Linux copies of one ``zygote``. Limits of time, memory and PTX size end in a
``CompileError`` whose ``limit`` says which. Strangers' sources, while grading, go to helpers of their own behind
Landlock and bwrap where the machine has them (``jail``); a scan of the includes, and of the files that the log names,
holds everywhere.
"""
