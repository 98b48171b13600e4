"""Topology files from numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from topologies import generate
from topologies.loader import TopologyFileError, load_topology, parse_topology
from topologies.model import EcnSettings, LinkSettings, QueueSettings


def test_file_says_what_was_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "mine.yaml"
    generate.main(
        "--name mine --planes 4 --t0 8 --t1 6 --hosts 5 --rate 400Gbps --delay-ns 1000 "
        f"--queue-frames 8 -o {output}".split()
    )
    fabric = load_topology(output)
    assert fabric.name == "mine"
    assert (fabric.planes, fabric.t0_per_plane, fabric.t1_per_plane, fabric.hosts_per_t0) == (
        4, 8, 6, 5,
    )  # fmt: skip
    assert fabric.host_link == fabric.fabric_link == LinkSettings(400 * 10**9, 1000)
    assert fabric.fabric_queue == QueueSettings(
        8 * 4242, 256 * 1024, EcnSettings(2 * 4242, 6 * 4242, 1.0)
    )
    assert capsys.readouterr().out == ""


def test_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    generate.main(["--planes", "1", "--t0", "1", "--t1", "1", "--hosts", "1"])
    fabric = parse_topology(capsys.readouterr().out, "stdout")
    assert fabric.host_link.rate_bps is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--planes 9 --t0 1 --t1 1 --hosts 1", "planes: 9 is too large: it must be at most 8"),
        ("--planes 1 --t0 1 --t1 1 --hosts 1 --rate 3", "links.host.rate: 3 is not a rate"),
        ("--planes 1 --t0 1 --t1 1", "Missing option '--hosts'"),
        ("--planes 1 --t0 1 --t1 1 --hosts 1 -o /nonexistent/x", "/nonexistent/x"),
    ],
)
def test_errors_are_lines(arguments: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        generate.main(arguments.split())
    assert stopped.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert all(line.startswith("topologies.generate: ") for line in captured.err.splitlines())


def test_numbers_that_make_no_fabric() -> None:
    with pytest.raises(TopologyFileError, match="t1_per_plane"):
        generate.generate(1, 1, 0, 1)
