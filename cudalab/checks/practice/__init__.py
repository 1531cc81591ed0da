"""What the *Now you* cells ask: a module for each chapter, whose ``EXERCISES`` carry no points.

An id is the chapter's number and the name in the cells' ids: ``14.last-record`` for ``now-last-record``.
"""
