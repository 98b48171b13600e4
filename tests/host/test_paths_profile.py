"""EV profiles: modes, field rules, and the EVs that lead to a destination."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from host.config import ForwardingMode
from host.paths.profile import EvFieldRule, EvMode, EvProfile, expand_evs
from host.paths.states import EvState
from host.paths.universe import EvUniverse
from topologies.addressing import encode_ev, ev_fields, ev_universe


def universe(
    profile: EvProfile,
    planes: int = 4,
    uplinks: int = 8,
    forwarding: ForwardingMode = ForwardingMode.SRV6,
    seed: int = 0,
) -> EvUniverse:
    return profile.universe(
        planes=planes, uplinks=uplinks, forwarding=forwarding, rng=random.Random(seed)
    )


class TestFieldRules:
    def test_bits_are_laid_over_the_initial_value_highest_first(self) -> None:
        # mask 1010_0110 takes four bits b3 b2 b1 b0 → b3 . b2 . . b1 b0 .
        rule = EvFieldRule(width=8, init_val=0b0101_0001, min_val=0, max_val=15, mask=0b1010_0110)
        assert rule.expand(0b0000) == 0b0101_0001
        assert rule.expand(0b1111) == 0b1111_0111
        assert rule.expand(0b1000) == 0b1101_0001
        assert rule.expand(0b0001) == 0b0101_0011

    def test_masked_bits_of_the_initial_value_are_overwritten(self) -> None:
        assert EvFieldRule(4, init_val=0b1111, max_val=3, mask=0b0011).expand(0) == 0b1100

    def test_a_fixed_field_is_its_initial_value(self) -> None:
        rule = EvFieldRule(4, init_val=9)
        assert rule.count == 1 and rule.expand(0) == 9

    @given(st.data())
    def test_expansion_is_one_to_one_and_keeps_to_the_mask(self, data: st.DataObject) -> None:
        width = data.draw(st.integers(1, 12))
        mask = data.draw(st.integers(0, (1 << width) - 1))
        top = (1 << mask.bit_count()) - 1
        init_val = data.draw(st.integers(0, (1 << width) - 1))
        low = data.draw(st.integers(0, top))
        high = data.draw(st.integers(low, top))
        rule = EvFieldRule(width, init_val, low, high, mask)
        values = [rule.expand(number) for number in range(low, high + 1)]
        assert len(set(values)) == rule.count
        assert values == sorted(values)  # order is kept
        assert all((value ^ init_val) & ~mask == 0 and value < 1 << width for value in values)

    @pytest.mark.parametrize(
        ("values", "message"),
        [
            ({"width": 0}, "width: 0 does not fit: it must be 1..32"),
            ({"width": 33}, "width: 33"),
            ({"width": 4, "init_val": 16}, "init_val: 0x10 does not fit: it must have at most 4"),
            ({"width": 4, "mask": 0x1F}, "mask: 0x1f does not fit"),
            ({"width": 4, "mask": 0b101, "max_val": 4}, "max_val: 4 does not fit: .* 2 bits"),
            ({"width": 4, "max_val": 1}, "max_val: 1"),
            ({"width": 4, "mask": 3, "min_val": 3, "max_val": 2}, r"min_val: 3 .* 0\.\.2"),
            ({"width": 4, "mask": 3, "min_val": -1, "max_val": 2}, "min_val: -1"),
        ],
    )
    def test_rules_that_cannot_be_are_named(self, values: dict[str, int], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            EvFieldRule(**values)


class TestGenerated:
    def test_the_plan_s_rules_yield_exactly_the_plan_s_evs(self) -> None:
        rules = tuple(map(EvFieldRule.of_plan, ev_fields(8, 4)))
        assert sorted(expand_evs(rules, None)) == sorted(ev_universe(8, 4))
        profile = EvProfile(EvMode.GENERATED, fields=rules)
        assert universe(profile, 8, 4).by_plane == universe(EvProfile(), 8, 4).by_plane

    def test_fields_stand_side_by_side_first_highest(self) -> None:
        rules = (
            EvFieldRule(4, init_val=0xA),
            EvFieldRule(8, min_val=1, max_val=2, mask=0x0F),
            EvFieldRule(3, max_val=1, mask=0b001),
        )
        assert list(expand_evs(rules, None)) == [
            0xA << 11 | 1 << 3,
            0xA << 11 | 1 << 3 | 1,
            0xA << 11 | 2 << 3,
            0xA << 11 | 2 << 3 | 1,
        ]

    def test_a_part_of_very_many_is_drawn_at_random_but_always_the_same(self) -> None:
        rules = (EvFieldRule(32, max_val=(1 << 32) - 1, mask=(1 << 32) - 1),)
        some = list(expand_evs(rules, 500))
        assert len(set(some)) == 500
        assert some == list(expand_evs(rules, 500))
        profile = EvProfile(EvMode.GENERATED, fields=rules, ev_count=500)
        hashed = universe(profile, forwarding=ForwardingMode.ECMP)
        assert [len(evs) for evs in hashed.by_plane] == [125] * 4

    def test_evs_that_lead_nowhere_are_left_out(self) -> None:
        """Between hosts of one T0 only uplink 0 names a path."""
        profile = EvProfile(
            EvMode.GENERATED, fields=tuple(map(EvFieldRule.of_plan, ev_fields(4, 8)))
        )
        assert universe(profile, uplinks=1).evs == (0, 1, 2, 3)

    def test_queue_pairs_share_it(self) -> None:
        rules = tuple(map(EvFieldRule.of_plan, ev_fields(4, 8)))
        one, other = (EvProfile(EvMode.GENERATED, fields=rules) for _ in range(2))
        assert universe(one) is universe(other)


class TestExplicit:
    def test_has_the_evs_that_are_given(self) -> None:
        evs = (encode_ev(0, 3), encode_ev(1, 0), encode_ev(1, 7))
        made = universe(EvProfile(EvMode.EXPLICIT, evs=evs))
        assert made.by_plane == ((evs[0],), evs[1:], (), ())

    def test_a_plane_may_be_named_where_evs_are_hashed(self) -> None:
        profile = EvProfile(EvMode.EXPLICIT, evs=((0xABCD, 2), 0x1234, 0x7777))
        made = universe(profile, forwarding=ForwardingMode.ECMP)
        assert made.plane_of == {0xABCD: 2, 0x1234: 1, 0x7777: 2}

    @pytest.mark.parametrize(
        ("evs", "message"),
        [
            (((encode_ev(1, 0), 0),), "EV 0x00000001 is of plane 1, not 0"),
            ((1 << 14,), "evs: entropy value 0x00004000 names no path"),
            ((encode_ev(5, 0),), r"EV 0x00000005 is of plane 5, but the NIC has planes 0\.\.3"),
            ((3, 3), "EV 0x00000003 is there twice"),
            ((encode_ev(0, 8),), "evs: none of the EVs names a path to the peer"),
            ((1 << 32,), "entropy value 4294967296 does not fit"),
        ],
    )
    def test_evs_that_name_no_path_are_refused(self, evs: tuple[Any, ...], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            universe(EvProfile(EvMode.EXPLICIT, evs=evs))


class TestAuto:
    @pytest.mark.parametrize("forwarding", [ForwardingMode.SRV6, ForwardingMode.STEV])
    def test_has_every_path_of_the_plan(self, forwarding: ForwardingMode) -> None:
        made = universe(EvProfile(), forwarding=forwarding)
        assert sorted(made.evs) == sorted(ev_universe(4, 8))
        assert made is universe(EvProfile(), forwarding=forwarding, seed=9)

    def test_has_random_numbers_where_evs_are_hashed(self) -> None:
        made = universe(EvProfile(active_evs=64), forwarding=ForwardingMode.ECMP)
        assert [len(evs) for evs in made.by_plane] == [32] * 4
        assert (
            made.evs
            != universe(EvProfile(active_evs=64), forwarding=ForwardingMode.ECMP, seed=1).evs
        )
        # Both halves are random: UDP source port and flow label each tell EVs apart
        assert len({ev & 0xFFFF for ev in made.evs}) > 120
        assert len({ev >> 16 for ev in made.evs}) > 120


class TestProfiles:
    @pytest.mark.parametrize(
        ("values", "message"),
        [
            ({"mode": EvMode.EXPLICIT}, "evs: is missing, but mode explicit has it"),
            ({"mode": EvMode.GENERATED}, "fields: is missing"),
            ({"evs": (1,)}, "evs: is given, but only mode explicit has it"),
            ({"fields": (EvFieldRule(3),)}, "fields: is given, but only mode generated"),
            (
                {"mode": EvMode.GENERATED, "fields": (EvFieldRule(30), EvFieldRule(3))},
                "fields: their widths add up to more than 32 bits",
            ),
            (
                {
                    "mode": EvMode.GENERATED,
                    "fields": (EvFieldRule(17, max_val=(1 << 17) - 1, mask=(1 << 17) - 1),),
                },
                "fields: 131072 EVs are more than 65536; set ev_count",
            ),
            ({"ev_count": 0}, "ev_count: 0 does not fit: it must be at least 1"),
            ({"ev_count": 65537}, "ev_count: 65537 does not fit: it must be at most 65536"),
            ({"active_evs": 0}, "active_evs: 0"),
            ({"backup_evs": -1}, "backup_evs: -1"),
            ({"ev_min_active": -1}, "ev_min_active: -1"),
            ({"probe_answers": 0}, "probe_answers: 0"),
            ({"probe_gap_ns": 0}, "probe_gap_ns: 0"),
            ({"probe_interval_ns": 0}, "probe_interval_ns: 0"),
        ],
    )
    def test_what_cannot_be_is_named(self, values: dict[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            EvProfile(**values)

    def test_an_ev_set_has_what_the_profile_says(self) -> None:
        profile = EvProfile(
            active_evs=8,
            backup_evs=4,
            ev_min_active=2,
            denied=frozenset({encode_ev(0, 0)}),
            ev_event_mask=frozenset({EvState.GOOD}),
            probe_interval_ns=777,
            probe_answers=1,
        )
        evs = profile.ev_set(universe(profile), rng=random.Random(0), timeout_ns=32_768)
        assert [len(evs.active(plane)) for plane in range(4)] == [2] * 4
        assert [len(evs.backup(plane)) for plane in range(4)] == [1] * 4
        assert evs.in_state(EvState.DENIED) == [0]
        evs.assume_bad(evs.active()[:1], 0)
        assert not evs.events
        probed = evs.next_probe(0)
        assert probed is not None
        evs.on_probe_timeout(probed, 10_000)
        assert evs.next_timer() == 10_777

    @pytest.mark.parametrize(
        ("ev_min_active", "least"), [(None, 1), (3, 3), (4, 4), (5, 4), (64, 4)]
    )
    def test_a_floor_above_all_the_paths_there_are_is_all_of_them(
        self, ev_min_active: int | None, least: int
    ) -> None:
        """Within a T0 there is one path a plane."""
        profile = EvProfile(ev_min_active=ev_min_active)
        evs = profile.ev_set(universe(profile, uplinks=1), rng=random.Random(0), timeout_ns=1)
        evs.assume_bad(evs.active(), 0)
        assert len(evs.active()) == least


class TestUniverse:
    @pytest.mark.parametrize(
        ("evs", "message"),
        [
            ([], "there is no EV"),
            ([(1, 0), (1, 1)], "EV 0x00000001 is there twice"),
            ([(1 << 32, 0)], "EV 0x100000000 does not fit"),
            ([(-1, 0)], "does not fit"),
            ([(1, 2)], r"EV 0x00000001 is of plane 2, but the NIC has planes 0\.\.1"),
        ],
    )
    def test_what_cannot_be_is_named(self, evs: list[tuple[int, int]], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            EvUniverse(2, evs)

    def test_less_a_denylist(self) -> None:
        made = EvUniverse(2, [(0, 0), (1, 1), (8, 0)])
        assert made.without({8, 99}).evs == (0, 1)
        assert made.without(set()) is made
        assert made.without({0, 1, 8}) is made
