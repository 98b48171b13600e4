"""The agents of the hosts: `mrc-host run` in each host's namespace, as the user would start it.

<run folder>/hosts/h0.json          configuration, made from the topology
<run folder>/logs/h0.log            its output
<socket folder>/hosts/h0.control    its sockets: $MRC_HOST_DIR is <socket folder>/hosts
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from topologies.host_config import host_config, host_json
from topologies.model import Fabric, Host
from topologies.runner.run_store import RunFolder

#: Apart from the switches' sockets: every *.control in an agents' folder is taken for an agent's
_FOLDER: Final = "hosts"


def directory(folder: RunFolder) -> Path:
    """Where the agents of a run have their sockets."""
    return folder.sockets / _FOLDER


def command(
    fabric: Fabric, host: Host, folder: RunFolder, options: Sequence[str] = ()
) -> Sequence[str]:
    """The command line of a host's agent; writes its configuration into the run's folder."""
    config = folder.path / _FOLDER / f"{host.name}.json"
    config.parent.mkdir(exist_ok=True)
    config.write_text(json.dumps(host_json(host_config(fabric, host)), indent=2) + "\n")
    agent = (sys.executable, "-m", "host.agent", "run")
    return (*agent, "--config", str(config), "--dir", str(directory(folder)), "--verbose", *options)


def is_ready(folder: RunFolder, host: str) -> bool:
    """An agent that takes requests has its control socket."""
    return (directory(folder) / f"{host}.control").exists()
