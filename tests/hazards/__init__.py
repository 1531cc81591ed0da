"""Programs with and without hazards, through the public modules: ``planted.py`` holds the bugs, ``correct.py`` programs
without one, ``deletion.py`` takes waits out of a program, ``order.py`` is an oracle for random programs."""
