"""Answers in Python, run in a jailed process whose device is not in it.

The student's code has the *names*: ``cudart``, ``driver`` and ``cp`` are the facades of the simulated device, over a
device each of whose runtime calls is a message to the grader (``inside/device.py``). The grader makes the call on its
own device and answers (``session.py``). Page-locked memory is shared through a file that both map; the grader compares
it with what it last saw there whenever it gets a message (``shared_memory.py``).

- ``messages``, ``channel``, ``values``: what goes over the socket, how, and how values of Python are put into it.
- ``session``, ``host_memory``, ``shared_memory``, ``lines``: the grader's end.
- ``inside``: the worker's end, which together with ``cudalab.sim`` is all of cudalab that the jail contains.
- ``template``: a jailed process that has loaded all libraries, and forks for each question.
"""
