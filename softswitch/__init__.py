"""A P4Runtime software switch that runs BMv2 JSON (v1model): see docs/ and `softswitch.switch`."""
