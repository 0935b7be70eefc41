"""`python -m pybatchq` is the command `batchq`."""

from pybatchq.cli import main

if __name__ == "__main__":
    main()
