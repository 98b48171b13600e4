"""`python -m experiments` is `mrc-experiment`."""

from experiments.cli import main

if __name__ == "__main__":
    main()
