"""`python -m host.agent` is `mrc-host`."""

from commandline.launch import launch


def main() -> None:
    """Entry point."""
    launch("host.agent.cli:main")


if __name__ == "__main__":
    main()
