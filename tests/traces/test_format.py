"""The trace format: what can be written, and what is said when it cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether

from softswitch.tables import ActionCall, GroupRef, MemberRef
from tests.traces.__main__ import main
from tests.traces.format import CASES, Trace, TraceError, parse_time_ns, parse_value, read
from tests.traces.observation import Observation, differences
from tests.traces.targets.in_process import SoftswitchInProcess

HEAD = 'ports 1 3\nlet eth = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")\n'
PACKET = 'packet 1: eth/IPv6(src="fd00::1", dst="fd00::2")'


def read_text(tmp_path: Path, text: str) -> Trace:
    path = tmp_path / "some.trace"
    path.write_text(text)
    return read(path)


def test_everything_that_can_be_said(tmp_path: Path) -> None:
    (tmp_path / "more.trace").write_text("table my_sid: sid=5f00:0:801 -> un\n")
    trace = read_text(
        tmp_path,
        f"""# What it is about,
# in two lines.
{HEAD}
use more.trace
table srv6.next_sid: sid=5f00:0:1001 -> to_port(egress_port=3)   # a comment
table neighbor: egress_port=3 -> set_addresses(src_addr=02:00:00:00:08:03 dst_addr=0x1)
member ecmp 1 -> to_port(egress_port=3)
group ecmp 7: 1 1
table ipv6_route: dst_addr=fd00:1:2::/32 -> group 7
table ipv6_route: dst_addr=fd00:2::1 -> member 1
only in-process
rate 3 1_000_000
register data_occupancy_bytes[3] = 0x10
seed 5
packet 1: eth/
          IPv6(src="fd00::1",
               dst="fd00::2")   # goes on over lines
  out 3 sent_data marked_ce ignoring 14..17, 20..20: eth/IPv6(src="fd00::1", dst="fd00::2", hlim=1)
packet 3 at 7us: octets("00 01")
  drop dropped_parser_error[3]
packet 3: octets("")
  count trimmed[1]
  drop dropped_control_full[1]
""",
    )
    assert trace.about == "What it is about,\nin two lines."
    assert trace.ports == (1, 3)
    entries = {(table.rpartition(".")[2], e.match): e.target for table, e in trace.entries}
    assert entries == {
        ("my_sid", (0x5F0000000801,)): ActionCall("FabricIngress.srv6.un", ()),
        ("next_sid", (0x5F0000001001,)): ActionCall("FabricIngress.srv6.to_port", (3,)),
        ("neighbor", (3,)): ActionCall("FabricEgress.neighbors.set_addresses", (0x020000000803, 1)),
        ("ipv6_route", ((0xFD000001 << 96, 32),)): GroupRef(7),
        ("ipv6_route", ((0xFD000002 << 96 | 1, 128),)): MemberRef(1),
    }
    assert trace.members == [
        ("FabricIngress.routing.ecmp", 1, ActionCall("FabricIngress.routing.to_port", (3,)))
    ]
    assert trace.groups == [("FabricIngress.routing.ecmp", 7, (1, 1))]
    assert (trace.rates, trace.seed) == ({3: 1_000_000}, 5)
    assert trace.registers == {("data_occupancy_bytes", 3): 16}
    first, second, third = trace.steps
    eth = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
    assert first.frame == bytes(eth / IPv6(src="fd00::1", dst="fd00::2"))
    (out,) = first.outs
    assert (out.port, out.ignored) == (3, ((14, 18), (20, 21)))
    assert [step.at_ns for step in trace.steps] == [0, 7_000, 17_000]
    assert (second.frame, third.frame) == (b"\0\1", b"")
    assert trace.expected_counters() == {
        ("FabricIngress.received", 1): (1, 54),
        ("FabricEgress.sent_data", 3): (1, 54),
        ("FabricIngress.admission.marked_ce", 3): (1, 54),
        ("FabricIngress.received", 3): (2, 2),
        ("FabricIngress.dropped_parser_error", 3): (1, 2),
        ("FabricIngress.admission.trimmed", 1): (1, 0),
        ("FabricIngress.admission.dropped_control_full", 1): (1, 0),
    }


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("pocket 1: eth", "no statement 'pocket'"),
        ("packet 2: eth", "port 2 is none of: 1, 3"),
        ("packet 1 eth", "must be: packet PORT [at TIME]: FRAME"),
        ("packet 1 at 5: eth", "time '5': must be a whole number of ns, us, ms or s"),
        ("packet 1: nothing", "NameError"),
        ("packet 1: 7", "is a int, not a frame"),
        ("packet 1: eth/IPv6(hlim=999)", "hlim"),
        ("packet 1: __import__('os')", "NameError"),
        ("out 3 sent_data: eth", "stands before any packet"),
        ("table my_sod: sid=1 -> un", "table 'my_sod' is none of: "),
        ("table my_sid: sod=1 -> un", "takes sid, not sod"),
        ("table my_sid: sid=1 -> to_port(egress_port=1)", "'to_port' is none of: "),
        ("table my_sid: sid=1 -> ua", "takes egress_port, not "),
        ("table my_sid: sid=1 -> ua(egress_port=512)", "512 does not fit in 9 bits"),
        ("table my_sid: sid=1", "must be: table NAME: FIELD=VALUE"),
        ("table ipv6_route: dst_addr=fd00::/16 -> group x", "invalid literal"),
        ("use nowhere.trace", "nowhere.trace: No such file"),
        ("only sometimes", "must be in-process"),
        ("rate 3 1000", "must stand below 'only in-process'"),
        (f"{PACKET}\n  out 3 at 1us sent_data: eth", "must stand below 'only in-process'"),
        (f"{PACKET}\n  drop dropped_flood[1]", "counter 'dropped_flood' is none of: "),
        (f"{PACKET}\n  drop dropped_hop_limit", "must be COUNTER[INDEX]"),
        (f"{PACKET}\n  out 3 sent_data: eth\n  drop dropped_hop_limit[1]", "has an out already"),
        (f"{PACKET}\n{PACKET}", "says nothing of what becomes of it"),
    ],
)
def test_bad_lines_are_named(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(TraceError) as raised:
        read_text(tmp_path, HEAD + line + "\n")
    assert said in str(raised.value)
    assert ".trace" in str(raised.value)
    if "use" not in line:
        number = len(HEAD.splitlines()) + len(line.splitlines())
        assert f"some.trace:{number}: " in str(raised.value)


def test_a_last_packet_that_says_nothing_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="line 3 says nothing"):
        read_text(tmp_path, HEAD + PACKET + "\n")


def test_time_does_not_go_back(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="before that of the packet above"):
        read_text(
            tmp_path,
            f"{HEAD}packet 1 at 2us: eth\n  drop dropped_not_ipv6[1]\npacket 1 at 1us: eth\n",
        )


def test_ambiguous_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="is none of"):
        read_text(tmp_path, f"{HEAD}table sid: sid=1 -> un\n")


@pytest.mark.parametrize(
    ("text", "bits", "value"),
    [
        ("17", 8, 17),
        ("0x11", 8, 17),
        ("5f00:0:801", 48, 0x5F0000000801),
        ("5f00:0", 32, 0x5F000000),
        ("02:00:00:00:08:01", 48, 0x020000000801),
        ("fd00::1", 128, 0xFD00 << 112 | 1),
    ],
)
def test_values(text: str, bits: int, value: int) -> None:
    assert parse_value(text, bits) == value


def test_times() -> None:
    assert [parse_time_ns(t) for t in ("3ns", "3us", "3ms", "3s")] == [
        3,
        3_000,
        3_000_000,
        3 * 10**9,
    ]


# ---- what is said when a switch does something else ----------------------------------------------


@pytest.fixture
def trace() -> Trace:
    return read(CASES / "usid.trace")


def wanted(trace: Trace) -> Observation:
    frames: dict[int, list[bytes]] = {}
    for step in trace.steps:
        for out in step.outs:
            frames.setdefault(out.port, []).append(out.frame)
    return Observation(frames, trace.expected_counters(), {})


def test_no_difference(trace: Trace) -> None:
    assert list(differences(trace, wanted(trace))) == []


def test_a_changed_byte_is_named_by_its_field(trace: Trace) -> None:
    seen = wanted(trace)
    frame = bytearray(seen.frames[3][0])
    frame[21] = 64  # hop limit
    seen.frames[3][0] = bytes(frame)
    (text,) = differences(trace, seen)
    assert "usid.trace: port 3, frame 1 (line " in text
    assert "is 1 IPv6.hlim = 64" in text
    assert "must be 1 IPv6.hlim = 63" in text


def test_missing_and_surplus_frames_are_named(trace: Trace) -> None:
    seen = wanted(trace)
    last = seen.frames[4].pop()
    seen.frames = {**seen.frames, 5: [last]}
    missing, surplus = differences(trace, seen)
    assert "port 4, frame 1 (line " in missing
    assert "did not come out" in missing
    assert "port 5, frame 1: came out, but none was due" in surplus


def test_counters_and_registers_are_named(trace: Trace) -> None:
    seen = wanted(trace)
    cell = ("FabricIngress.received", 1)
    seen.counters = {**seen.counters, cell: (1, 2), ("FabricEgress.sent_data", 77): (1, 1)}
    seen.registers = {("data_occupancy_bytes", 3): 9}
    texts = list(differences(trace, seen))
    assert len(texts) == 3
    assert any("FabricIngress.received[1] is (1, 2), must be" in text for text in texts)
    assert any("FabricEgress.sent_data[77] is (1, 1), must be zero" in text for text in texts)
    assert any("register data_occupancy_bytes[3] is 9, must be zero" in text for text in texts)


def test_a_wrong_time_is_named() -> None:
    trace = read(CASES / "overflow.trace")
    seen = SoftswitchInProcess().run(trace)
    assert list(differences(trace, seen)) == []
    assert seen.times_ns is not None
    seen.times_ns[3][0] += 1
    (text,) = differences(trace, seen)
    assert "was out at 34097 ns, not 34096 ns" in text


def test_frames_are_due_in_the_order_of_their_times() -> None:
    trace = read(CASES / "overflow.trace")
    times = [out.at_ns for out in trace.due()[3]]
    assert times == sorted(times, key=lambda at_ns: at_ns or 0)
    assert [out.line for out in trace.due()[3]] != sorted(out.line for out in trace.due()[3])


def test_ignored_bytes_are_ignored_and_others_not() -> None:
    trace = read(CASES / "impair_corrupt.trace")
    out = trace.steps[0].outs[0]
    assert out.ignored == ((14, 15),)
    changed = out.frame[:14] + b"\x77"
    assert out.matches(changed)
    assert not out.matches(b"\x77" + changed[1:])
    assert not out.matches(changed + b"\0")


# ---- the command ---------------------------------------------------------------------------------


def invoke(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, arguments)
    return result.exit_code, result.output


def test_list_and_show() -> None:
    code, output = invoke("list")
    assert code == 0
    assert "usid " in output
    code, output = invoke("show", "usid")
    assert code == 0
    assert "into port 1 at 0 ns" in output
    assert "out of port 3" in output


def test_run_in_process() -> None:
    code, output = invoke("run", "runt", "usid")
    assert code == 0
    runt, usid = output.splitlines()
    assert runt == "runt: 3 packets, ok"
    assert usid.startswith("usid: ")
    assert usid.endswith(" packets, ok")


def test_run_shows_differences(tmp_path: Path) -> None:
    path = tmp_path / "wrong.trace"
    path.write_text(f"{HEAD}{PACKET}\n  drop dropped_hop_limit[1]\n")
    code, output = invoke("run", str(path))
    assert code == 1
    assert "wrong: differs" in output
    assert "FabricIngress.routing.dropped_no_route[1] is (1, 54), must be zero" in output


def test_unknown_trace_is_one_line() -> None:
    code, output = invoke("show", "nowhere")
    assert code == 2
    assert output.splitlines()[-1] == "Error: nowhere: No such file or directory"


def test_coverage_command() -> None:
    code, output = invoke("coverage", "impair")
    assert code == 0
    assert "p4src/impair.p4: what the traces exercise" in output
