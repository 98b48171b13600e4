"""`python -m softswitch` is `softswitch`."""

from commandline.launch import launch


def main() -> None:
    """Entry point."""
    launch("softswitch.cli:main")


if __name__ == "__main__":
    main()
