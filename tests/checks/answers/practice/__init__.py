"""Wrong answers to the *Now you* cells, by chapter: ``WRONG``, each with the rule that refuses it."""
