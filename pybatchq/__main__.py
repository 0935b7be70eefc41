"""`python -m pybatchq` is `batchq`; without arguments the variable MODE chooses a command."""

from __future__ import annotations

import os
import sys

from pybatchq.cli import main

MODES = ("api", "worker")


def chosen() -> list[str] | None:
    """The arguments that MODE stands for; None: those of the command line."""
    if len(sys.argv) > 1:
        return None
    mode = os.environ.get("MODE", "").strip() or "api"
    if mode not in MODES:
        print(f"batchq: MODE is {mode!r}; allowed: {', '.join(MODES)}", file=sys.stderr)
        sys.exit(2)
    return [mode]


if __name__ == "__main__":
    main(chosen())
