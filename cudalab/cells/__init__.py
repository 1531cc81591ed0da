"""The cell magics ``%%cuda`` and ``%%isolated``, and the process in which an isolated cell runs."""
