"""Scenarios in real time: agents on hosts, traffic, faults at their times, and what came of it.

plan.py         what of a scenario can be done on these switches, and how
connection.py   requests to agents and switches, from one event loop
traffic.py      flows and collectives, driven over the agents' control sockets
fault_driver.py faults, begun and ended at their times
meters.py       what is read along the run, from agents, switches and interfaces
books.py        where every frame went
outcome.py      the same result that virtual time has
execute.py      one run from its first connection to its result
live_view.py    what is shown meanwhile
virtual.py      the same scenario in virtual time, for machines without namespaces
"""
