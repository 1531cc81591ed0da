"""What students hand in: read as bytes and as text, never run, never unpacked onto the disk.

``files`` finds the notebooks in folders and archives, ``notebook`` takes the answer cells out of one, ``students`` says
whose they are. Whatever is odd becomes an :class:`~cudalab.grading.submissions.files.Oddity` for the teacher.
"""

from __future__ import annotations

from cudalab.grading.submissions.files import Oddity
from cudalab.grading.submissions.notebook import Wanted
from cudalab.grading.submissions.students import Submission, collect

__all__ = ["Oddity", "Submission", "Wanted", "collect"]
