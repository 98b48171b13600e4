"""Settings of the property tests."""

from hypothesis import HealthCheck, settings

# Machines that run tests are busy: how long an example takes says nothing
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")
