"""What a grading gives: ``results`` writes all of it; ``tables`` for people, programs and learning platforms,
``feedback`` for each learner, ``similarity`` for the teacher, ``gradebook`` for nbgrader.
"""
