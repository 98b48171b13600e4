"""RoCEv2 with the RC transport: the baseline that MRC is compared with. docs/baselines.md."""

from host.roce.config import RoceConfig
from host.roce.nic import RoceNic

__all__ = ["RoceConfig", "RoceNic"]
