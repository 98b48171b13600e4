"""Congestion control: one controller per destination, chosen by name (`registry`)."""

# Importing the controllers gives them their names
from host.congestion import fixed_window as _fixed_window
from host.congestion import nscc as _nscc
from host.congestion.base import CongestionController
from host.congestion.network import Network
from host.congestion.registry import algorithms, controller_class, make_controller, register

__all__ = [
    "CongestionController",
    "Network",
    "algorithms",
    "controller_class",
    "make_controller",
    "register",
]

del _fixed_window, _nscc
