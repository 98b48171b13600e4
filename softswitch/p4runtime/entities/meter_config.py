"""`MeterConfig` ↔ the two rates of a BMv2 meter (section "MeterEntry & DirectMeterEntry")."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from softswitch.externs import MeterRate
from softswitch.p4runtime.entities.base import INT64_MAX, count
from softswitch.p4runtime.errors import invalid, unimplemented
from softswitch.p4runtime.schema import MeterType


def decode_rates(message: Any, meter_type: MeterType, what: str) -> tuple[MeterRate, ...]:
    """Committed and peak rate with their bursts, in packets or bytes (per second).

    INVALID_ARGUMENT for configurations that the meter's type does not allow; UNIMPLEMENTED for an
    excess burst, which a two-rate meter (RFC 2698) has no place for.
    """
    cir = count(message.cir, f"{what}: cir")
    cburst = count(message.cburst, f"{what}: cburst")
    pir = count(message.pir, f"{what}: pir")
    pburst = count(message.pburst, f"{what}: pburst")
    eburst = count(message.eburst, f"{what}: eburst")
    if meter_type is not MeterType.TWO_RATE_THREE_COLOR and (cir, cburst) != (pir, pburst):
        raise invalid(f"{what}: a single-rate meter needs pir = cir and pburst = cburst")
    if eburst:
        if meter_type is MeterType.SINGLE_RATE_THREE_COLOR:
            raise unimplemented(f"{what}: eburst {eburst}: this switch meters with two rates only")
        raise invalid(f"{what}: eburst {eburst}: only single-rate three-colour meters have one")
    if pir < cir:
        raise invalid(f"{what}: pir {pir} is below cir {cir}")
    return (MeterRate(cir, cburst), MeterRate(pir, pburst))


def encode_rates(rates: Sequence[MeterRate], message: Any) -> None:
    """Fill in a MeterConfig message; `rates` are committed and peak, or one for both."""
    committed, peak = rates[0], rates[-1]
    message.SetInParent()
    message.cir = min(committed.rate_per_s, INT64_MAX)
    message.cburst = min(committed.burst, INT64_MAX)
    message.pir = min(peak.rate_per_s, INT64_MAX)
    message.pburst = min(peak.burst, INT64_MAX)
