"""The paper's experiments in virtual time, and what must hold of the endpoint.

model        what an experiment is made of
catalogue    the figures by name; figures/ one module each
simulate     from a scenario to its measurements
sweep        which runs are to be made; store keeps them, local and cluster make them
output       tables, pictures (drawing) and the page
interop      other simulators' workloads and topologies
claims       what must hold of the endpoint
"""
