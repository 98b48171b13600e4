"""`endpoint`: settings by the endpoint's own names, and where the file has each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from topologies import scenario as model
from topologies import scenario_schema as schema
from topologies.documents import plain
from topologies.scenario_sections.document import ScenarioDocument

#: Fields that the endpoint itself calls otherwise
_ENDPOINT_NAMES: Final = {
    "mpr": "mpr_psns",
    "sack_delay": "sack_delay_ns",
    "window": "window_psns",
    "cnp_interval": "cnp_interval_ns",
}
_QP_FIELDS: Final = (
    *("timeout", "linear_retries", "exponential_retries", "mpr", "max_wimm"),
    *("sack_packets", "sack_delay", "trim_nack", "dynamic_mpr"),
)


def endpoint_in(section: schema.EndpointSection, document: ScenarioDocument) -> model.Endpoint:
    """The settings of all endpoints."""
    forwarding = section.effective_forwarding
    return model.Endpoint(
        transport=section.transport,
        # Switches spray; to endpoints it is as with ECMP
        forwarding="ecmp" if forwarding == "spray" else forwarding,
        qp=_given(section, _QP_FIELDS),
        congestion=section.congestion or {},
        evs=section.evs or {},
        roce=_given(section, schema.ROCE_FIELDS),
        places=dict(_places(document)),
    )


def _given(section: schema.EndpointSection, fields: Sequence[str]) -> dict[str, Any]:
    """Those of the fields that say something, by the endpoint's names."""
    values = {_ENDPOINT_NAMES.get(name, name): getattr(section, name) for name in fields}
    return {name: value for name, value in values.items() if value is not None}


def _places(document: ScenarioDocument) -> Iterator[tuple[str, str]]:
    """Where each field of the endpoint section stands, by its dotted name within it."""
    section = plain(document.document).get("endpoint")
    if not isinstance(section, dict):
        return
    yield "", document.place(("endpoint",))
    for name in map(str, section):
        place = document.place(("endpoint", name))
        yield name, place
        yield _ENDPOINT_NAMES.get(name, name), place
        if isinstance(section[name], dict):
            for inner in section[name]:
                yield f"{name}.{inner}", document.place(("endpoint", name, inner))
