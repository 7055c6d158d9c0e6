"""`python -m foveate.cli`."""

import sys

from foveate.cli import main

sys.exit(main())
