"""What encoding and decoding one frame costs, in microseconds of CPU.

python -m benchmarks.wire_codec [--packets 50000]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from zlib import crc32

from host.wire import (
    BTH,
    METH,
    NETH,
    RETH,
    SETH,
    TSETH,
    CCState,
    Decoder,
    Envelope,
    FrameTemplate,
    Opcode,
    Sack,
    Write,
    encode,
    trim,
)
from topologies.addressing import AddressPlan, HostId, encode_ev, nic_mac
from topologies.traffic_class import DEFAULT_TRAFFIC_CLASSES

MTU_BYTES = 4096
QP = 0x123456
REPEATS = 5


def _envelope(source: HostId, destination: HostId, uplink: int) -> Envelope:
    plan = AddressPlan()
    ev = encode_ev(3, uplink)
    return Envelope.over_path(
        dst_mac=nic_mac(3, destination),
        src_mac=nic_mac(3, source),
        carrier=plan.template(source, destination).address(ev),
        dst=plan.host_address(destination),
        src=plan.host_address(source),
        ev=ev,
        dscp=DEFAULT_TRAFFIC_CLASSES.trimmable,
        ecn=2,
    )


def _cases() -> dict[str, Callable[[], object]]:
    envelope = _envelope(HostId(1, 2), HostId(3, 4), 5)
    own_address = envelope.inner.dst
    payload = bytes(range(256)) * (MTU_BYTES // 256)
    view = memoryview(payload)
    middle = Opcode.RDMA_WRITE_MIDDLE
    write = Write(
        envelope,
        BTH(middle, QP, 7),
        METH(0, 1),
        TSETH(99),
        RETH(1 << 40, 2, 1 << 26),
        None,
        payload,
    )
    seth = SETH(0, False, 3, envelope.ev, 1, 2, 7, 32, 1, 0xFF)
    cc_state = CCState(99, 3, False, 0, 1000)
    sack = Sack(envelope, BTH(Opcode.RELIABILITY_SACK, QP, 7), seth, cc_state)
    write_frame, sack_frame = encode(write), encode(sack)
    trimmed_frame = trim(write_frame, DEFAULT_TRAFFIC_CLASSES.trimmed)
    template = FrameTemplate(envelope)
    verifying = Decoder(own_address)
    trusting = Decoder(own_address, verify_icrc=False)
    # Each of another path, each met for the first time
    strangers = [
        encode(write._replace(envelope=_envelope(HostId(1, 2), HostId(3, 4), uplink)))
        for uplink in range(16)
    ]
    return {
        "WRITE middle, template": lambda: template.write(
            middle, QP, 7, 0, 1, 1 << 40, 2, 1 << 26, view, tx_timestamp=99
        ),
        "SACK, template": lambda: template.sack(QP, seth, cc_state),
        "NACK, template": lambda: template.frame(
            BTH(Opcode.RELIABILITY_NACK, QP, 7).pack() + NETH(1, 2, 3, 4, 7, 99).pack()
        ),
        "WRITE middle, decode": lambda: verifying.decode(write_frame),
        "WRITE middle, decode without ICRC": lambda: trusting.decode(write_frame),
        "SACK, decode": lambda: verifying.decode(sack_frame),
        "SACK, decode without ICRC": lambda: trusting.decode(sack_frame),
        "trimmed WRITE, decode": lambda: verifying.decode(trimmed_frame),
        "WRITE middle, encode": lambda: encode(write),
        "SACK, encode": lambda: encode(sack),
        "16 WRITEs of unknown paths, decode": lambda: [Decoder().decode(f) for f in strangers],
        f"CRC-32 of {MTU_BYTES} bytes, for comparison": lambda: crc32(payload),
    }


def _cpu_us(run: Callable[[], object], packets: int) -> float:
    """The best of some rounds: what else the machine does only ever adds."""
    rounds = []
    for _ in range(REPEATS):
        start = time.process_time_ns()
        for _ in range(packets):
            run()
        rounds.append((time.process_time_ns() - start) / packets / 1000)
    return min(rounds)


def main(packets: int) -> None:
    """Print one line a case."""
    print(f"CPU per frame, payload {MTU_BYTES} bytes, best of {REPEATS} x {packets} frames")
    for name, run in _cases().items():
        count = packets // 16 if name.startswith("16 ") else packets
        print(f"  {name:<40} {_cpu_us(run, count):7.2f} µs")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packets", type=int, default=20_000, help="frames a round")
    main(parser.parse_args().packets)
