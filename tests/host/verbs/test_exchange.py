"""What ends tell each other, as JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from ipaddress import IPv6Address
from typing import Any

import pytest

from host.verbs import InvalidArgumentError, MrInfo, QpInfo

REGION = MrInfo(addr=1 << 63, length=4096, rkey=0xFFFF_FFFF)
INFO = QpInfo(
    gid=IPv6Address("fd4d:5243:0:1::2"),
    qp_num=0x123456,
    psn=0xFFFFFF,
    mpr=32,
    max_wimm=128,
    path_mtu=4096,
    trim_nack=False,
    dynamic_mpr=True,
    regions=(REGION, MrInfo(0, 1, 0)),
)


def test_round_trip_through_text() -> None:
    text = json.dumps(INFO.to_json())
    assert QpInfo.from_json(json.loads(text)) == INFO
    assert json.loads(text)["gid"] == "fd4d:5243:0:1::2"


def test_regions_may_be_left_out() -> None:
    document = INFO.to_json()
    del document["regions"]
    assert QpInfo.from_json(document) == replace(INFO, regions=())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"gid": "10.0.0.1"}, "gid: '10.0.0.1'"),
        ({"gid": 5}, "gid: 5"),
        ({"qp_num": 1 << 24}, "qp_num"),
        ({"qp_num": "17"}, "qp_num: '17'"),
        ({"qp_num": True}, "qp_num: True"),
        ({"psn": -1}, "psn"),
        ({"mpr": 0}, "mpr"),
        ({"mpr": 256}, "mpr"),
        ({"max_wimm": 0}, "max_wimm"),
        ({"path_mtu": 9004}, "path_mtu"),
        ({"trim_nack": 1}, "trim_nack: 1"),
        ({"version": 2}, "version: 2"),
        ({"regions": {}}, "regions"),
        ({"regions": [5]}, "region: 5"),
        ({"regions": [{"addr": 0, "length": 1}]}, "region: rkey is missing"),
        ({"regions": [{"addr": 0, "length": 0, "rkey": 1}]}, "length"),
        ({"regions": [{"addr": 1 << 63, "length": 1 << 63 | 1, "rkey": 1}]}, "length"),
        ({"regions": [{"addr": 0, "length": 1, "rkey": "1"}]}, "region: rkey: '1'"),
        ({"extra": 1}, "there is no extra"),
    ],
)
def test_what_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        QpInfo.from_json({**INFO.to_json(), **changes})


@pytest.mark.parametrize("name", ["version", "gid", "qp_num", "psn", "mpr", "dynamic_mpr"])
def test_what_is_missing(name: str) -> None:
    document = INFO.to_json()
    del document[name]
    with pytest.raises(InvalidArgumentError, match=f"QP: {name} is missing"):
        QpInfo.from_json(document)


@pytest.mark.parametrize("document", [None, [], "{}", 5])
def test_no_object(document: object) -> None:
    with pytest.raises(InvalidArgumentError, match="it must be an object"):
        QpInfo.from_json(document)
