"""Workloads and topologies of other simulators."""
