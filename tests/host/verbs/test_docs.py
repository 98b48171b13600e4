"""docs/api.md: its example runs, its tables name what there is, and no call is left out."""

from __future__ import annotations

import errno
import re
from pathlib import Path

import pytest

import host.verbs
import host.verbs.ctl
from host.qp.states import QpState
from host.verbs import AsyncEventType, MrcError, WcStatus
from host.verbs.transitions import ATTRIBUTE_RULES

DOCUMENT = Path(__file__).parents[3] / "docs" / "api.md"
TEXT = DOCUMENT.read_text()

#: Every function that mrc.h and mrc_ctl.h declare
CALLS = re.findall(
    r"\w+",
    """
query_device query_device_ex query_version create_context destroy_context create_comp_channel
get_comp_channel_fd destroy_comp_channel create_cq poll_cq destroy_cq create_qp_hint
destroy_qp_hint query_qp_hint modify_qp_hint create_qp destroy_qp query_qp modify_qp get_qpn
post_recv post_send get_async_event ack_async_event req_notify_cq get_cq_event ack_cq_events
ctl_query_device ctl_query_device_ex ctl_query_version ctl_query_port ctl_modify_port
ctl_modify_ev_fmt_profile ctl_query_ev_fmt_profile ctl_modify_ev_profile ctl_query_ev_profile
ctl_modify_cc_profile ctl_query_cc_profile ctl_create_ev_event_cq ctl_poll_ev_event
ctl_ep_batch_send_wait
""",
)


def test_the_example_runs() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 6
    # Lines stay where they are in the document, so that a traceback says where
    source = TEXT.splitlines()
    inside = False
    for number, line in enumerate(source):
        if line.startswith("```"):
            inside = line == "```python"
            source[number] = ""
        elif not inside:
            source[number] = ""
    exec(compile("\n".join(source), str(DOCUMENT), "exec"), {"__name__": "example"})


@pytest.mark.parametrize("call", CALLS)
def test_every_call_of_the_originals_is_in_a_table(call: str) -> None:
    assert re.search(rf"^\|[^|]*`mrc_{call}`", TEXT, re.MULTILINE)


def named() -> list[str]:
    """What stands as code in the second column of the tables of calls."""
    rows = re.findall(r"^\|[^|\n]*\|([^|\n]*)\|[^|\n]*\|$", TEXT, re.MULTILINE)
    names = {name for row in rows for name in re.findall(r"`([A-Z]\w+(?:\.\w+)?)`", row)}
    return sorted(names - {"ValueError", "PermissionError", "LookupError", "TimeoutError"})


@pytest.mark.parametrize("name", named())
def test_what_the_tables_name_is_there(name: str) -> None:
    owner, _, member = name.partition(".")
    found = getattr(host.verbs, owner, None) or getattr(host.verbs.ctl, owner)
    if member and member not in getattr(found, "__dataclass_fields__", {}):
        slots = {slot for kind in found.__mro__ for slot in getattr(kind, "__slots__", ())}
        assert hasattr(found, member) or member in slots


def test_errors() -> None:
    for error in MrcError.__subclasses__():
        (row,) = re.findall(rf"^\| `{error.__name__}` \| (\w+) \| (.*?) ?\|$", TEXT, re.MULTILINE)
        assert error.code == getattr(errno, row[0])
        builtins = [kind for kind in error.__bases__ if kind is not MrcError]
        assert row[1] == "".join(f"`{kind.__name__}`" for kind in builtins)


def test_statuses_and_events() -> None:
    for status in WcStatus:
        assert re.search(rf"^\| {status.name} \|", TEXT, re.MULTILINE)
    for event_type in AsyncEventType:
        assert re.search(rf"^\| [^|]*\b{event_type.name}\b[^|]*\|", TEXT, re.MULTILINE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (QpState.RESET, QpState.INIT),
        (QpState.INIT, QpState.RTR),
        (QpState.RTR, QpState.RTS),
    ],
)
def test_attributes_of_transitions(old: QpState, new: QpState) -> None:
    (row,) = re.findall(rf"^\| {new.value} \|(.*)\|(.*)\|$", TEXT, re.MULTILINE)
    rule = ATTRIBUTE_RULES[old, new]
    words = [set(re.findall(r"[A-Z]+(?:_[A-Z]+)*", re.sub(r"\(.*?\)", "", cell))) for cell in row]
    assert words[0] == {bit.name for bit in rule.ibv}
    assert words[1] == {bit.name for bit in rule.mrc} - {"VENDOR_CFG"}
    bold = "".join(re.findall(r"\*\*(.*?)\*\*", row[0]))
    assert set(re.findall(r"[A-Z_]+", bold)) == {bit.name for bit in rule.required}
