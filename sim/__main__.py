"""`python -m sim` is `mrc-sim`."""

from commandline.launch import launch


def main() -> None:
    """Entry point."""
    launch("sim.cli:main")


if __name__ == "__main__":
    main()
