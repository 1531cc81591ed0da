"""Right and wrong answers to every exercise, with what the check has to say of each.

Chosen before the checks were written: what learners hand in, what has been tried against the checks, and cheats. One
module for each chapter lists ``ANSWERS``; ``answer.py`` says what an answer is, ``cheats.py`` makes the ones that every
exercise has to refuse.
"""
