"""`python -m softswitch`."""

from softswitch.cli import main

if __name__ == "__main__":
    main()
