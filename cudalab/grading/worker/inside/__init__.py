"""The worker's end: what runs in the jail, beside the student's code. Nothing here is trusted by the grader."""
