"""``python -m app``: see ``app.cli``."""

import sys

from app.cli.interrupts import end_at_once

if __name__ == "__main__":
    end_at_once()
    # Only now: this takes long enough for people to think better of it.
    from app.cli.main import main

    status = main()
    end_at_once()  # what is left are threads to wait for
    sys.exit(status)
