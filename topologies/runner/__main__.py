"""`python -m topologies.runner` is `mrc-topology`."""

from topologies.runner.cli import main

if __name__ == "__main__":
    main()
