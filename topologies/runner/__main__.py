"""`python -m topologies.runner` is `mrc-topology`."""

from commandline.launch import launch


def main() -> None:
    """Entry point."""
    launch("topologies.runner.cli:main")


if __name__ == "__main__":
    main()
