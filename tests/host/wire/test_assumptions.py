"""The choices where the specification's sources leave one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from host.wire import assumptions
from host.wire.assumptions import (
    TIMESTAMP_UNIT_NS,
    TIMESTAMP_WRAP_NS,
    elapsed_ns,
    ev_of_packet,
    flow_label_of_ev,
    port_status_mask,
    ports_of_status_mask,
    psns_of_sack,
    received_of_sack_bitmap,
    sack_bitmap_of_received,
    timestamp_of_ns,
    udp_source_port_of_ev,
)

bitmaps = st.integers(0, 2**64 - 1)


def test_the_first_psn_of_a_sack_is_the_least_significant_bit() -> None:
    assert list(psns_of_sack(100, 1, 0b1101)) == [101, 103, 104]
    assert list(psns_of_sack(100, -2, 1 << 63)) == [161]


def test_psns_of_a_sack_wrap() -> None:
    assert list(psns_of_sack(0xFFFFFE, 1, 0b111)) == [0xFFFFFF, 0, 1]
    assert list(psns_of_sack(1, -3, 0b1)) == [0xFFFFFE]


@pytest.mark.parametrize("first_is_lsb", [True, False])
@given(received=bitmaps)
def test_the_bit_order_is_chosen_in_one_place(first_is_lsb: bool, received: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assumptions, "SACK_FIRST_PSN_IS_LSB", first_is_lsb)
        on_the_wire = sack_bitmap_of_received(received)
        assert received_of_sack_bitmap(on_the_wire) == received
        expected = [i for i in range(64) if received >> i & 1]
        assert list(psns_of_sack(0, 0, on_the_wire)) == expected
        first_bit = on_the_wire if first_is_lsb else on_the_wire >> 63
        assert first_bit & 1 == received & 1


@given(st.integers(0, 10**12), st.integers(0, TIMESTAMP_WRAP_NS - TIMESTAMP_UNIT_NS))
def test_a_timestamp_tells_how_long_ago_it_was(sent_ns: int, delay_ns: int) -> None:
    elapsed = elapsed_ns(timestamp_of_ns(sent_ns), sent_ns + delay_ns)
    assert abs(elapsed - delay_ns) < TIMESTAMP_UNIT_NS
    assert elapsed % TIMESTAMP_UNIT_NS == 0


def test_timestamps_are_16_bits_of_128_ns() -> None:
    assert timestamp_of_ns(127) == 0
    assert timestamp_of_ns(128) == 1
    assert timestamp_of_ns(TIMESTAMP_WRAP_NS) == 0
    assert timestamp_of_ns(TIMESTAMP_WRAP_NS - 1) == 0xFFFF


@given(st.sets(st.integers(1, 31)))
def test_port_status_masks(ports: set[int]) -> None:
    mask = port_status_mask(ports)
    assert ports_of_status_mask(mask) == ports
    assert mask == sum(1 << port for port in ports)


@pytest.mark.parametrize("port", [0, -1, 32])
def test_ports_without_a_bit(port: int) -> None:
    with pytest.raises(ValueError, match=rf"port number {port} .* must be 1\.\.31"):
        port_status_mask([port])


def test_bits_that_are_no_ports_are_passed_over() -> None:
    assert ports_of_status_mask(0xFFFF_FFFF) == set(range(1, 32))


@given(st.integers(0, 2**32 - 1), st.integers(0, 15))
def test_an_ev_is_split_over_port_and_flow_label(ev: int, upper_bits: int) -> None:
    label = flow_label_of_ev(ev)
    assert label < 1 << 16
    assert ev_of_packet(upper_bits << 16 | label, udp_source_port_of_ev(ev)) == ev
