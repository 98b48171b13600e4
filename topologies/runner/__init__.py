"""The real-time runner: a fabric of real switches on veth links in network namespaces.

cli          mrc-topology
sandbox      a run's own PID, network and user namespaces: nothing outlives a run
run_store    folders, logs and state of runs; which are alive
session      the story of a run                  report     what it shows
deployment   namespaces, links, switch processes of a run
impairment   boxes that lose and damage what crosses a link
targets/     one small class per kind of switch
control_plane  the controller's part
check/       packets, exchange, bursts, counters
"""
