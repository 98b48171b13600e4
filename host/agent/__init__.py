"""The host agent: a NIC of `host` in real time, on the interfaces of this network namespace.

The protocol core has no socket and no clock; here are both, and what the outside needs to use it: a
control socket, the exchange of queue pair attributes between agents, and the command `mrc-host`.

    cli.py, cli_*.py, options.py, views.py   the command, and what it prints
    client.py                           the other end of the control socket
    control.py, commands.py, *_commands.py
                                        the control socket; what can be asked of it
    exchange.py, service.py, services.py
                                        between agents: queue pairs, and what the far end offers
    perftest.py                         bandwidth and latency of writes
    flow.py, flow_target.py             both ends of a scenario's flow, every byte checked
    collective.py                       a rank of a group of agents
    sampling.py                         counters along time, and data sent by path
    serve.py                            an agent's life
    workspace.py                        regions and queue pairs of one user
    report.py                           what an agent tells of itself
    address.py, jsonlines.py, errors.py where to listen, how to talk, what goes wrong
    agent.py                            one host: everything above put together
    timing.py                           time constants for worlds in which a round trip takes ms
    driver.py                           frames and timers, in real time
"""
