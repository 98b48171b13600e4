"""Two NICs back to back: everything together."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from typing import Any

import pytest

from host.config import ForwardingMode, NicConfig, PortConfig, QpDefaults
from host.nic import Nic
from host.profiles import PlainProfiles
from host.qp.queue_pair import QueuePair
from host.qp.work import WriteRequest
from host.wire import Write, decode
from tests.host.network import FABRIC, Faults, Network, config, pair
from topologies.host_config import host_config, host_json

GIGABIT = 10**9
MTU = 64


def connected(network: Network, **attributes: Any) -> tuple[QueuePair, QueuePair]:
    near, far = (nic.create_qp(nic.create_cq(), **attributes) for nic in network.nics)
    told = near.endpoint(), far.endpoint()
    near.connect(told[1])
    far.connect(told[0])
    return near, far


def transfer(network: Network, data: bytes, **attributes: Any) -> bytearray:
    near, _ = connected(network, **attributes)
    memory = bytearray(len(data))
    region = network.nics[1].register_memory(memory)
    near.post_write(WriteRequest(1, data, region.va, region.rkey))
    network.run(lambda: len(near.send_cq) > 0)
    (completion,) = near.send_cq.poll()
    assert completion.status.name == "SUCCESS"
    return memory


def test_a_mebibyte_with_losses_at_full_mtu() -> None:
    network = pair(
        seed=5,
        faults=Faults(0.05, 0.02, 0.02, 0.05, 0.05, jitter_ns=5000),
        rate_bps=100 * GIGABIT,
    )
    data = bytes(range(256)) * 4096
    assert transfer(network, data) == data


def test_with_nothing_wrong_nothing_is_sent_twice_and_planes_share() -> None:
    network = pair(rate_bps=100 * GIGABIT)
    planes: Counter[int] = Counter()
    evs: Counter[int] = Counter()

    def watch(nic: Nic, port: int, frame: bytes) -> None:
        packet = decode(frame)
        if isinstance(packet, Write):
            assert not packet.bth.rtx
            planes[port] += 1
            evs[packet.envelope.ev] += 1

    network.watch = watch
    data = bytes(1 << 20)
    start_ns = network.now_ns
    transfer(network, data)
    assert sum(planes.values()) == 256
    assert set(planes.values()) == {64}
    assert len(evs) == 8
    # 256 frames of 4,242 bytes over four ports of 100 Gb/s, and one way there and back
    exact_ns = 64 * (4242 + 24) * 8 / 100
    assert exact_ns <= network.now_ns - start_ns <= exact_ns + 2 * 1000 + 500


@pytest.mark.parametrize("forwarding", ForwardingMode)
@pytest.mark.parametrize("hosts", [("h0", "h2"), ("h0", "h1")])
def test_forwarding_modes(forwarding: ForwardingMode, hosts: tuple[str, str]) -> None:
    network = pair(
        faults=Faults(loss=0.02, trim=0.05), forwarding=forwarding, hosts=hosts, path_mtu_bytes=256
    )
    outer: set[int | None] = set()
    traffic = network.nics[0].config.traffic

    def watch(nic: Nic, port: int, frame: bytes) -> None:
        packet = decode(frame)
        envelope = packet.envelope
        outer.add(None if envelope.outer is None else envelope.outer.dst)
        if isinstance(packet, Write):
            assert envelope.ecn == 2
            assert envelope.dscp in (traffic.trimmable, traffic.trimmable_retx)
            peer = next(other for other in network.nics if other is not nic).config
            template = nic.config.template(peer.address)
            assert template is not None
            if envelope.outer is not None:
                assert envelope.outer.dst == template.address(envelope.ev)

    network.watch = watch
    data = bytes(range(256)) * 100
    assert transfer(network, data) == data
    assert (outer == {None}) == (forwarding is not ForwardingMode.SRV6)


def test_message_numbers_go_round() -> None:
    # More messages than MSNs and RQMSNs, and PSNs go round twice 2^23
    network = pair(path_mtu_bytes=MTU, unlimited_batch=512, faults=Faults(delay_ns=100))
    network.nics[0].memory.register(bytearray(1))
    near, far = connected(network, sack_packets=32, max_wimm=1024, max_wimm_dest=1024)
    memory = bytearray(1024)
    region = network.nics[1].register_memory(memory)
    total = (1 << 16) + 1500
    posted = completed = received = 0
    while completed < total:
        while posted < total and near.requestor is not None and near.requestor.posted < 2000:
            far_posts = posted - received < 4000
            if not far_posts:
                break
            far.post_recv(posted)
            value = posted.to_bytes(4, "big")
            near.post_write(
                WriteRequest(posted, value, region.va + posted % 256 * 4, region.rkey, imm=posted)
            )
            posted += 1
        assert network.step()
        for completion in near.send_cq.poll():
            assert (completion.wr_id, completion.status.name) == (completed, "SUCCESS")
            completed += 1
        for completion in far.recv_cq.poll():
            assert completion.imm == completion.wr_id == received
            received += 1
    assert received == total
    last = {number % 256: number for number in range(total)}
    expected = b"".join(last[slot].to_bytes(4, "big") for slot in range(256))
    assert memory == expected
    assert near.requestor is not None and near.requestor.stats.retransmissions == 0


def test_two_runs_are_the_same_to_the_byte() -> None:
    def frames(seed: int) -> list[tuple[int, int, bytes]]:
        network = pair(
            seed=seed, faults=Faults(0.1, 0.1, 0.1, 0.1, 0.1, jitter_ns=900), path_mtu_bytes=MTU
        )
        found: list[tuple[int, int, bytes]] = []
        network.watch = lambda nic, port, frame: found.append((network.now_ns, port, frame))
        transfer(network, bytes(5000))
        return found

    assert frames(7) == frames(7)
    assert frames(7) != frames(8)


def test_state_does_not_grow_with_what_was_sent() -> None:
    network = pair(
        rate_bps=100 * GIGABIT,
        faults=Faults(loss=0.01, trim=0.01, mark=0.1, jitter_ns=500),
        path_mtu_bytes=MTU,
        profiles=PlainProfiles(cwnd_bytes=20_000),
    )
    near, far = connected(network)
    memory = bytearray(64 * MTU)
    region = network.nics[1].register_memory(memory)
    sizes: list[tuple[int, ...]] = []
    for wr_id in range(300):
        near.post_write(WriteRequest(wr_id, bytes(64 * MTU), region.va, region.rkey))
        network.run(lambda wr_id=wr_id: len(near.send_cq) > wr_id)  # type: ignore[misc]
        requestor, responder = near.requestor, far.responder
        assert requestor is not None and responder is not None
        sizes.append(
            (
                len(requestor.flight.packets),
                sum(map(len, requestor.flight._timers)),
                len(requestor.flight.retransmissions),
                requestor.probes.out(),
                len(responder._answers),
                len(responder._ends),
                *(len(nic._timers._heap) for nic in network.nics),
                *(len(nic._control_ring) + len(nic._scheduler.ring) for nic in network.nics),
            )
        )
    early = [max(column) for column in zip(*sizes[:100], strict=True)]
    late = [max(column) for column in zip(*sizes[200:], strict=True)]
    assert all(after <= before + 70 for before, after in zip(early, late, strict=True))


class TestConfig:
    def test_of_a_host_file(self) -> None:
        made = config("h3")
        fabric_host = host_config(FABRIC, FABRIC.host("h3"))
        assert (made.name, made.address, made.id) == ("h3", fabric_host.address, fabric_host.id)
        assert [(port.mac, port.gateway_mac) for port in made.ports] == [
            (interface.mac, interface.gateway_mac) for interface in fabric_host.interfaces
        ]
        assert made.uplinks == FABRIC.t1_per_plane
        assert made.traffic == FABRIC.traffic
        for host in FABRIC.hosts():
            address = FABRIC.addresses.host_address(host.id)
            assert made.template(address) == fabric_host.destination(address)
            assert made.uplinks_towards(address) == (1 if host.id.t0 == made.id.t0 else 2)
        assert made.template(1) is None

    @pytest.mark.parametrize(
        ("text", "match"),
        [
            ("{}", "interfaces is missing"),
            ("[]", "not a host configuration"),
            ("null", "not a host configuration"),
            ("{", "Expecting"),
        ],
    )
    def test_what_is_no_host_file(self, text: str, match: str) -> None:
        with pytest.raises(ValueError, match=match):
            NicConfig.from_host_json(text)

    def test_planes_must_be_numbered_from_0(self) -> None:
        document = host_json(host_config(FABRIC, FABRIC.host("h0")))
        document["interfaces"] = document["interfaces"][1:]
        with pytest.raises(ValueError, match=r"planes are \[1, 2, 3\]"):
            NicConfig.from_host_json(json.dumps(document))

    @pytest.mark.parametrize(
        ("changes", "match"),
        [
            ({"ports": ()}, "number of ports: 0"),
            ({"path_mtu_bytes": 63}, "path_mtu_bytes: 63"),
            ({"path_mtu_bytes": 66}, "multiple of 4"),
            ({"udp_port": 0}, "udp_port: 0"),
            ({"unlimited_batch": 0}, "unlimited_batch: 0"),
            ({"bitmap_pool_psns": 100}, "bitmap_pool_psns: 100"),
        ],
    )
    def test_values_out_of_range(self, changes: dict[str, object], match: str) -> None:
        with pytest.raises(ValueError, match=match):
            dataclasses.replace(config("h0"), **changes)  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("changes", "match"),
        [
            ({"mpr_psns": 100}, "mpr_psns: 100"),
            ({"mpr_psns": 200}, "multiple of 128"),
            ({"timeout": 25}, "timeout: 25"),
            ({"linear_retries": 8}, "linear_retries: 8"),
            ({"exponential_retries": 26}, "exponential_retries: 26"),
            ({"sack_packets": 65}, "sack_packets: 65"),
            ({"max_wimm": 0}, "max_wimm: 0"),
        ],
    )
    def test_defaults_out_of_range(self, changes: dict[str, int], match: str) -> None:
        with pytest.raises(ValueError, match=match):
            QpDefaults(**changes)  # type: ignore[arg-type]

    def test_a_rate_of_zero(self) -> None:
        with pytest.raises(ValueError, match="rate_bps: 0"):
            PortConfig(1, 2, 0)


def test_limits_of_queue_pairs() -> None:
    nic = Nic(config("h0", max_qps=2), seed=1)
    cq = nic.create_cq()
    first, second = nic.create_qp(cq), nic.create_qp(cq)
    with pytest.raises(ValueError, match="2 QPs, the most"):
        nic.create_qp(cq)
    nic.destroy_qp(first)
    third = nic.create_qp(cq)
    assert len({first.number, second.number, third.number}) == 3
    with pytest.raises(ValueError, match="is not a QP of h0"):
        nic.destroy_qp(first)
