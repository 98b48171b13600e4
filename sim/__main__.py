"""`python -m sim`."""

from sim.cli import main

main()
