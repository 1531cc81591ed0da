"""Small programs whose results are the same on the simulated device and on a real GPU.

``programs/`` holds them, one behaviour each; ``run.py`` runs them all and stores what they return;
``h200/`` is what an NVIDIA H200 returned; ``test_conformance.py`` compares.
"""
