"""The time model against a real GPU: the same experiments on both, and how far apart they are.

    python -m bench.fidelity                        model every experiment, compare with the stored figures of an H200
    python -m bench.fidelity --gpu --document FILE  measure on this machine's GPU, model, compare, write the page
    python -m bench.fidelity --record FILE          measure on this machine's GPU and store the figures

An experiment is a group of variants that a learner would compare, with a figure in microseconds for each. Its program
is written once, against ``from cudalab import cp, cudart``, and runs on both devices.
"""
