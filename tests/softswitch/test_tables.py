"""Tables, action profiles and value sets as the control plane sees them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softswitch.externs import MeterKind, MeterRate
from softswitch.tables import (
    GROUP,
    NO_ACTION,
    ActionCall,
    ActionProfile,
    ActionSignature,
    BadAction,
    BadMatch,
    BadMember,
    Entry,
    EntryExists,
    EntryMissing,
    Group,
    GroupRef,
    MatchField,
    MatchKind,
    MemberInUse,
    MemberRef,
    OneShot,
    Table,
    TableConst,
    TableError,
    TableFull,
    key_kind,
)

SET = ActionSignature("set", (("port", 9),))
DROP = ActionSignature("drop", ())
ACTIONS = (SET, DROP)


def table(*kinds: MatchKind, width: int = 8, **options: object) -> Table:
    fields = tuple(MatchField(f"k{i}", kind, width) for i, kind in enumerate(kinds))
    return Table("t", fields, ACTIONS, **options)  # type: ignore[arg-type]


def set_port(port: int) -> ActionCall:
    return ActionCall("set", (port,))


def test_insert_get_modify_delete() -> None:
    t = table(MatchKind.EXACT, size=2)
    entry = Entry((1,), set_port(3), controller_metadata=7, metadata=b"x", idle_timeout_ns=9)
    t.insert(entry)
    assert t.get((1,)) is entry
    assert t.exact == {1: (0, 3)}
    t.modify(Entry((1,), ActionCall("drop")))
    assert t.exact == {1: (1,)}
    t.insert(Entry((0,), set_port(1)))
    assert [e.match for e in t.entries()] == [(1,), (0,)]  # order of insertion
    assert len(t) == 2
    t.delete((1,))
    assert t.exact == {0: (0, 1)}
    calls: list[Callable[[], object]] = [
        lambda: t.get((1,)),
        lambda: t.delete((1,)),
        lambda: t.modify(entry),
    ]
    for call in calls:
        with pytest.raises(EntryMissing, match="k0 = 0x1"):
            call()


def test_structures_stay_the_same_objects() -> None:
    """Generated code has bound them."""
    t = table(MatchKind.TERNARY, MatchKind.LPM)
    bound = [t.exact, t.prefixes, t.masks, t.ranges, t.default_cell]
    t.insert(Entry(((1, 1), (0, 0)), set_port(1), 5))
    t.set_default(set_port(2))
    t.clear()
    now = [t.exact, t.prefixes, t.masks, t.ranges, t.default_cell]
    assert all(a is b for a, b in zip(bound, now, strict=True))
    assert len(t) == 0 and t.masks == [] and t.default_cell == [(NO_ACTION,)]


def test_full_and_duplicate() -> None:
    t = table(MatchKind.EXACT, size=1)
    t.insert(Entry((1,), set_port(1)))
    with pytest.raises(EntryExists):
        t.insert(Entry((1,), set_port(2)))
    with pytest.raises(TableFull, match="all 1 entries"):
        t.insert(Entry((2,), set_port(2)))
    assert t.exact == {1: (0, 1)}


@pytest.mark.parametrize(
    ("kind", "value", "problem"),
    [
        (MatchKind.EXACT, 256, "8 bits"),
        (MatchKind.EXACT, (1, 1), "one integer"),
        (MatchKind.EXACT, None, "one integer"),
        (MatchKind.LPM, 1, "a pair"),
        (MatchKind.LPM, (1, 9), "0 to 8"),
        (MatchKind.LPM, (0x81, 4), "beyond the prefix"),
        (MatchKind.TERNARY, (256, 0), "8 bits"),
        (MatchKind.TERNARY, (0, 256), "8 bits"),
        (MatchKind.TERNARY, (3, 1), "outside the mask"),
        (MatchKind.RANGE, (5, 4), "empty"),
        (MatchKind.RANGE, (5, 256), "8 bits"),
        (MatchKind.OPTIONAL, 256, "8 bits"),
    ],
)
def test_bad_match(kind: MatchKind, value: object, problem: str) -> None:
    t = table(kind)
    with pytest.raises(BadMatch, match=rf"t: k0: .*{problem}"):
        t.insert(Entry((value,), set_port(1), int(t.needs_priority)))  # type: ignore[arg-type]
    assert len(t) == 0


def test_bad_number_of_fields_and_priority() -> None:
    with pytest.raises(BadMatch, match="2 match fields given, the key has 1"):
        table(MatchKind.EXACT).insert(Entry((1, 2), set_port(1)))
    with pytest.raises(BadMatch, match="priority 1"):
        table(MatchKind.LPM).insert(Entry(((0, 0),), set_port(1), 1))
    for kind, value in (
        (MatchKind.TERNARY, (0, 0)),
        (MatchKind.RANGE, (0, 255)),
        (MatchKind.OPTIONAL, None),
    ):
        with pytest.raises(BadMatch, match="must be above 0"):
            table(kind).insert(Entry((value,), set_port(1)))
    with pytest.raises(BadMatch, match="default action only"):
        table().insert(Entry((), set_port(1)))


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (ActionCall("nope"), "not one of set, drop"),
        (ActionCall("set"), "0 arguments given, 1 expected"),
        (ActionCall("set", (512,)), "port = 0x200: does not fit 9 bits"),
        (ActionCall("set", (-1,)), "does not fit"),
    ],
)
def test_bad_action(call: ActionCall, problem: str) -> None:
    t = table(MatchKind.EXACT)
    with pytest.raises(BadAction, match=problem):
        t.insert(Entry((1,), call))
    with pytest.raises(BadAction, match=problem):
        t.set_default(call)


def test_default_entry() -> None:
    t = table(MatchKind.EXACT)
    with pytest.raises(EntryMissing):
        _ = t.default
    assert t.default_cell == [(NO_ACTION,)]
    t.set_default(set_port(4))
    assert t.default.target == set_port(4)
    assert t.default_cell == [(0, 4)]
    t.reset_default()
    assert t.default_cell == [(NO_ACTION,)]
    fixed = table(MatchKind.EXACT, default=set_port(1), const_default=True)
    assert fixed.default.target == set_port(1)
    with pytest.raises(TableConst):
        fixed.set_default(set_port(2))


def test_const_entries() -> None:
    t = table(MatchKind.EXACT)
    t.insert_const(Entry((1,), set_port(1), is_const=True))
    t.const_entries = True
    calls: list[Callable[[], object]] = [
        lambda: t.insert(Entry((2,), set_port(1))),
        lambda: t.modify(Entry((1,), set_port(2))),
        lambda: t.delete((1,)),
    ]
    for call in calls:
        with pytest.raises(TableConst):
            call()
    assert t.exact == {1: (0, 1)}


def test_counters_survive_modify_unless_given() -> None:
    t = table(MatchKind.EXACT, has_counters=True)
    t.insert(Entry((1,), set_port(1)))
    cell = t.get((1,)).counter_data
    assert cell == [0, 0]
    assert t.exact == {1: (0, cell, 1)}
    cell[:] = [5, 500]
    t.modify(Entry((1,), set_port(2)))
    assert t.get((1,)).counter_data is cell
    assert t.exact[1] == (0, [5, 500], 2)
    t.modify(Entry((1,), set_port(2), counter_data=[1, 2]))
    assert cell == [1, 2]
    with pytest.raises(BadMatch, match="no direct counter"):
        table(MatchKind.EXACT).insert(Entry((1,), set_port(1), counter_data=[0, 0]))


def test_direct_meter() -> None:
    t = table(MatchKind.EXACT, meter_kind=MeterKind.PACKETS)
    rates = (MeterRate(1, 1), MeterRate(1, 2))
    t.insert(Entry((1,), set_port(1), meter_config=rates))
    entry = t.get((1,))
    assert entry.meter is not None and entry.meter.rates == rates
    assert t.exact[1] == (0, entry, 1)
    t.modify(Entry((1,), set_port(2)))
    assert t.get((1,)).meter is entry.meter
    assert t.get((1,)).meter_config == rates
    meter = entry.meter
    t.get((1,)).configure_meter(None)
    assert not meter.rates
    with pytest.raises(BadMatch, match="no direct meter"):
        table(MatchKind.EXACT).insert(Entry((1,), set_port(1), meter_config=rates))
    with pytest.raises(BadMatch, match="no direct meter"):
        Entry((1,), set_port(1)).configure_meter(rates)


def test_descriptions_are_readable() -> None:
    t = table(
        MatchKind.EXACT, MatchKind.LPM, MatchKind.TERNARY, MatchKind.RANGE, MatchKind.OPTIONAL
    )
    shown = t.describe((1, (0x10, 4), (2, 3), (4, 5), None))
    assert shown == "k0 = 0x1, k1 = 0x10/4, k2 = 0x2 &&& 0x3, k3 = 0x4..0x5, k4 = any"
    assert table().describe(()) == "(no key)"


def test_key_kind() -> None:
    def kind(*kinds: MatchKind) -> MatchKind:
        return key_kind(MatchField("f", k, 8) for k in kinds)

    assert kind() is MatchKind.EXACT
    assert kind(MatchKind.EXACT, MatchKind.LPM) is MatchKind.LPM
    assert kind(MatchKind.LPM, MatchKind.OPTIONAL) is MatchKind.TERNARY
    assert kind(MatchKind.TERNARY, MatchKind.RANGE) is MatchKind.RANGE


# ---- random operations against a plain model ----------------------------------------------------

TernaryMatch = tuple[tuple[int, int], int | None]

matches = st.tuples(
    st.integers(0, 7).flatmap(lambda m: st.integers(0, 7).map(lambda v: (v & m, m))),
    st.integers(0, 1) | st.none(),
)
operations = st.lists(
    st.tuples(st.sampled_from("imd"), matches, st.integers(1, 3), st.integers(0, 5)), max_size=40
)


@settings(deadline=None)
@given(operations)
def test_data_plane_follows_the_entries(
    steps: list[tuple[str, TernaryMatch, int, int]],
) -> None:
    t = table(MatchKind.TERNARY, MatchKind.OPTIONAL, width=3, size=20)
    model: dict[tuple[TernaryMatch, int], int] = {}
    for step, match, priority, port in steps:
        entry = Entry(match, set_port(port), priority)
        key = (match, priority)
        try:
            if step == "i":
                t.insert(entry)
                assert key not in model
                model[key] = port
            elif step == "m":
                t.modify(entry)
                assert key in model
                model[key] = port
            else:
                t.delete(match, priority)
                del model[key]
        except (EntryExists, EntryMissing):
            assert (key in model) == (step == "i")
    assert {e.key: e.target for e in t.entries()} == {k: set_port(p) for k, p in model.items()}
    tops = [top for _, _, top in t.masks]
    assert tops == sorted(tops, reverse=True)
    for packed in range(64):
        values = (packed >> 3, packed & 7)
        expected = {
            (priority, port)
            for ((ternary, optional), priority), port in model.items()
            if values[0] & ternary[1] == ternary[0] and optional in (None, values[1])
        }
        best = max((priority for priority, _ in expected), default=0)
        hits = [found for mask, get, _ in t.masks if (found := get(packed & mask)) is not None]
        assert max((priority for priority, _ in hits), default=0) == best
        for priority, compiled in hits:
            if priority == best:
                assert (priority, compiled[1]) in expected
        hit = t.lookup(values)
        assert (hit.priority if hit else 0) == best


# ---- action profiles -----------------------------------------------------------------------------


def selector(size: int = 8, **options: int) -> tuple[ActionProfile, Table]:
    profile = ActionProfile(
        "p", size, is_selector=True, actions={a.name: a for a in ACTIONS}, **options
    )
    t = table(MatchKind.EXACT, profile=profile)
    profile.tables.append(t)
    return profile, t


def test_members_are_checked() -> None:
    profile, t = selector(size=2)
    profile.insert_member(1, set_port(1))
    with pytest.raises(EntryExists):
        profile.insert_member(1, set_port(1))
    with pytest.raises(BadAction):
        profile.insert_member(2, ActionCall("nope"))
    profile.insert_member(2, set_port(2))
    with pytest.raises(TableFull):
        profile.insert_member(3, set_port(3))
    calls: list[Callable[[], object]] = [
        lambda: profile.modify_member(9, set_port(1)),
        lambda: profile.delete_member(9),
    ]
    for call in calls:
        with pytest.raises(EntryMissing):
            call()
    with pytest.raises(BadMember, match="no member 9"):
        t.insert(Entry((1,), MemberRef(9)))
    with pytest.raises(BadAction, match="needs a member"):
        t.insert(Entry((1,), set_port(1)))
    with pytest.raises(BadMember, match="no action profile"):
        table(MatchKind.EXACT).insert(Entry((1,), MemberRef(1)))


def test_member_in_use() -> None:
    profile, t = selector()
    profile.insert_member(1, set_port(1))
    profile.insert_member(2, set_port(2))
    profile.insert_group(5, Group({1: (1, -1)}))
    with pytest.raises(MemberInUse, match="in group 5"):
        profile.delete_member(1)
    t.insert(Entry((1,), MemberRef(2)))
    with pytest.raises(MemberInUse, match="used by table t"):
        profile.delete_member(2)
    t.modify(Entry((1,), GroupRef(5)))
    profile.delete_member(2)
    with pytest.raises(MemberInUse, match="used by table t"):
        profile.delete_group(5)
    t.delete((1,))
    profile.delete_group(5)
    profile.delete_member(1)
    assert not profile.members and not profile.groups


def test_member_as_default() -> None:
    profile, t = selector()
    profile.insert_member(1, set_port(1))
    t.set_default(MemberRef(1))
    assert t.default_cell == [(0, 1)]
    profile.modify_member(1, set_port(7))
    assert t.default_cell == [(0, 7)]
    with pytest.raises(MemberInUse):
        profile.delete_member(1)


def test_groups_are_checked() -> None:
    profile, t = selector(max_group_size=3)
    profile.insert_member(1, set_port(1))
    for group, error in (
        (Group({2: (1, -1)}), BadMember),
        (Group({1: (0, -1)}), BadMember),
        (Group({1: (4, -1)}), TableFull),
        (Group({1: (1, -1)}, max_size=4), TableFull),
        (Group({1: (3, -1)}, max_size=2), TableFull),
    ):
        with pytest.raises(error):
            profile.insert_group(1, group)
    profile.insert_group(1, Group({1: (2, -1)}, max_size=2))
    with pytest.raises(EntryExists):
        profile.insert_group(1, Group({}))
    with pytest.raises(TableFull):  # the size given at creation holds
        profile.modify_group(1, Group({1: (3, -1)}))
    calls: list[Callable[[], object]] = [
        lambda: profile.modify_group(9, Group({})),
        lambda: profile.delete_group(9),
    ]
    for call in calls:
        with pytest.raises(EntryMissing):
            call()
    with pytest.raises(BadMember, match="no group 9"):
        t.insert(Entry((1,), GroupRef(9)))
    plain = ActionProfile("q", 4, is_selector=False, actions={})
    with pytest.raises(BadMember, match="without a selector"):
        plain.insert_group(1, Group({}))


def test_group_list_is_shared_and_changes_in_place() -> None:
    profile, t = selector()
    for member in (1, 2):
        profile.insert_member(member, set_port(member))
    profile.insert_group(5, Group({2: (1, -1), 1: (2, -1)}))
    t.insert(Entry((1,), GroupRef(5)))
    t.insert(Entry((2,), GroupRef(5)))
    number, members = t.exact[1]
    assert number == GROUP
    assert members == [(0, 1), (0, 1), (0, 2)]
    assert t.exact[2][1] is members
    profile.modify_member(2, ActionCall("drop"))
    assert members == [(0, 1), (0, 1), (1,)]
    profile.modify_group(5, Group({2: (1, -1)}))
    assert members == [(1,)]


def test_one_shot_is_checked() -> None:
    profile, t = selector()
    t.insert(Entry((1,), OneShot(((set_port(1), 2, -1), (ActionCall("drop"), 1, 4)))))
    assert t.exact[1] == (GROUP, [(0, 1), (0, 1), (1,)])
    profile.set_port_up(4, False)
    assert t.exact[1] == (GROUP, [(0, 1), (0, 1)])
    with pytest.raises(BadMember, match="weight 0"):
        t.insert(Entry((2,), OneShot(((set_port(1), 0, -1),))))
    with pytest.raises(BadAction):
        t.insert(Entry((2,), OneShot(((ActionCall("nope"), 1, -1),))))


def test_every_error_is_a_table_error() -> None:
    for error in (BadAction, BadMatch, BadMember, EntryExists, EntryMissing, TableFull, TableConst):
        assert issubclass(error, TableError)
