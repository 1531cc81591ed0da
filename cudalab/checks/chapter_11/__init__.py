"""The exercises of chapter 11: a pipeline whose copies overlap with its kernels, two letterboxes, the NULL stream in
between, functions of the host in a queue, the order of calls for one copy engine, a wait that is missing,
and a timeline predicted."""

from cudalab.checks.chapter_11.pipelines import ONE_ENGINE, PIPELINE
from cudalab.checks.chapter_11.prediction import PREDICTION
from cudalab.checks.chapter_11.queues import ADD_UP, LETTERBOXES, MISSING_WAIT, SERVE

EXERCISES = (PIPELINE, LETTERBOXES, SERVE, ADD_UP, ONE_ENGINE, MISSING_WAIT, PREDICTION)
