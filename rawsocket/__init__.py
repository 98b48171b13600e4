"""Linux interfaces as ports of raw frames: packet sockets, their offloads, link state.

Shared by the switch and the host agent; knows of neither.
"""
