"""`python -m host.agent` is `mrc-host`."""

from host.agent.cli import main

main()
