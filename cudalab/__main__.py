"""``python -m cudalab …``"""

import sys

from cudalab.cli import main

sys.exit(main())
