"""Launches that judge the time model and never fit it: chosen before the model was changed, of the kind that learners
write in an evening. A third each has few warps or long chains (``latency``), work that depends on data (``data``), and
memory traffic (``bandwidth``).

Twelve experiments of them, four of each third, drawn by lot, have served development since
(``experiment.DEVELOPMENT``): they show which terms the model lacks. The others only judge."""
