"""``python -m tests.corpus``: see `record`."""

from .record import main

if __name__ == "__main__":
    main()
