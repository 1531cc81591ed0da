"""``python -m cudalab …``"""

import os
import sys

# Python looks first in the folder where this is typed, which may hold what students have handed in: a numpy.py, say.
here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
if not sys.flags.safe_path and sys.path and os.path.abspath(sys.path[0]) not in (here, os.path.realpath(here)):
    del sys.path[0]

from cudalab.cli import main  # noqa: E402

sys.exit(main())
