"""Kernels that others published, run on the simulated device and compared with a GPU.

Nothing of them is kept here. `sources.py` names repositories and commits; `python -m tests.public_corpus` reads the
files from clones, cuts out what is for the device, finds a launch for each kernel under the sanitizer, runs it, and
says what passes and why the others do not.
"""
