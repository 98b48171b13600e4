"""`python -m controller` is `mrc-controller`."""

from commandline.launch import launch


def main() -> None:
    """Entry point."""
    launch("controller.cli:main")


if __name__ == "__main__":
    main()
