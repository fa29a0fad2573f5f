"""`python -m butfor.cli`."""

import sys

from butfor.cli.app import main

sys.exit(main())
