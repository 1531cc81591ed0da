"""What a kernel does, without running it for its results: ``profile``, ``sanitize`` and ``source``.

``mirror.py``       the launch's memory, copied into the simulated device, also from a GPU
``profile.py``      ``cudalab.profile``: counters and occupancy
``line_counts.py``  the same counters by source line
``sanitize.py``     ``cudalab.sanitize``: memcheck, racecheck, initcheck, synccheck
``source.py``       ``cudalab.source``: PTX beside source lines, registers, the compiler's log
"""
