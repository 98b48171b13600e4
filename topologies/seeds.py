"""Seeds of components, derived from the run's seed and the component's name.

What a component draws depends on nothing but these two: another host, link or fault more in a
scenario changes nobody else's draws.
"""

from __future__ import annotations

import random
from hashlib import blake2b


def seed_of(run_seed: int, component: str) -> int:
    """64 bits for the component of this name."""
    digest = blake2b(f"{run_seed}/{component}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big")


def random_of(run_seed: int, component: str) -> random.Random:
    """A generator of the component's own."""
    return random.Random(seed_of(run_seed, component))
