"""`python -m foveate`."""

import sys

from foveate.cli import main

sys.exit(main())
