"""Launches that judge the time model and never fit it, of the kind that learners write in an evening. A third each of a
set has few warps or long chains, work that depends on data, and memory traffic.

The second set (``latency``, ``data``, ``bandwidth``) was chosen before the model was changed. Twelve experiments of it,
four of each third, drawn by lot, have served development since (``experiment.DEVELOPMENT``): they show which terms the
model lacks. The others only judge.

The third set (``third_latency``, ``third_data``, ``third_bandwidth``) was written without a look at the model, after it
had been changed, from kernels and sizes that no other experiment has. All of it only judges. Each of its launches
leaves what it reads as it was, so that the first and the hundredth do the same work; their results are checked against
NumPy (``tests/bench/test_third_set.py``)."""
