"""`python -m pybatchq` is the command `batchq`; without arguments the variable MODE chooses one."""

from __future__ import annotations

import os
import sys

from pybatchq.cli import main

MODES = ("worker",)


def chosen() -> list[str] | None:
    """The arguments that MODE stands for; None: those of the command line."""
    mode = os.environ.get("MODE", "").strip()
    if len(sys.argv) > 1 or not mode:
        return None
    if mode not in MODES:
        print(f"batchq: MODE is {mode!r}; allowed: {', '.join(MODES)}", file=sys.stderr)
        sys.exit(2)
    return [mode]


if __name__ == "__main__":
    main(chosen())
