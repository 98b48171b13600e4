"""`python -m experiments` is `mrc-experiment`."""

from commandline.launch import launch


def main() -> None:
    """Entry point."""
    launch("experiments.cli:main")


if __name__ == "__main__":
    main()
