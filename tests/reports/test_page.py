"""The page: well-formed, complete, and safe whatever things are named."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from reports.charts import MAX_CURVES, MAX_EV_ROWS, Bins, ev_rows, round_up
from reports.fabric_map import load_of
from reports.page import page
from reports.record import (
    LinkRecord,
    PausedPortRecord,
    PauseRecord,
    RunRecord,
    SuspicionRecord,
    TableRecord,
    from_json,
)
from tests.reports.samples import HOSTILE, fault, flow, record, span

_VOID = {"meta"}


class Reader(HTMLParser):
    """Checks that elements nest; keeps texts, classes and attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.classes: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.coordinates: list[float] = []
        self.record = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        self.classes += [value for name, value in attrs if name == "class" and value]
        for name, value in attrs:
            if name in ("x", "y", "x1", "x2", "y1", "y2") and value:
                self.coordinates.append(float(value))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.record += data
        elif data.strip():
            self.texts.append(data)


def read(made: RunRecord) -> Reader:
    reader = Reader()
    reader.feed(page(made))
    reader.close()
    assert reader.open == []
    return reader


def test_everything_is_on_it() -> None:
    faults = [fault("cut"), fault("stays", 15_000, None), fault("late", 99_000, begun=False)]
    flows = [flow("first"), flow("second", "failed"), flow("ring", kind="all-reduce")]
    reader = read(record(flows=flows, faults=faults, spans=[span(7)], failures=["too slow"]))
    for expected in ("first", "second", "ring (all-reduce)", "failed", "20 µs", "too slow"):
        assert expected in reader.texts
    for expected in ("cut", "stays", "late", "never began", "the end", "not again"):
        assert expected in reader.texts
    for plane in range(2):
        # Once on the map, once as what a colour means
        assert reader.texts.count(f"plane {plane}") >= 2
    assert "h0 → h1 p1-t1-0" in reader.texts
    # A fault that began is marked on all five pictures along time, another is not
    assert reader.classes.count("band") == 2 * 5
    assert reader.texts.count("F1 cut") == 5


def test_faults_at_one_time_share_a_band() -> None:
    faults = [fault("a", 1000, 9000), fault("b", 2000, 4000), fault("c", 9000, 12_000)]
    reader = read(record(faults=[*faults, fault("d", 15_000, None)]))
    assert reader.classes.count("band") == 2 * 4
    assert reader.classes.count("hover") == reader.classes.count("edge") == 4 * 4


def test_the_page_needs_nothing_else() -> None:
    text = page(record(faults=[fault("cut")], spans=[span(7)]))
    reader = read(record(faults=[fault("cut")], spans=[span(7)]))
    assert not {"link", "img", "iframe", "object"} & set(reader.tags)
    assert not {"src", "href"} & {name for name, _ in reader.attributes}
    assert "url(" not in text and "@import" not in text and "://" not in text


def test_names_are_escaped_everywhere() -> None:
    made = record(
        scenario=HOSTILE,
        flows=[flow(HOSTILE), flow("b")],
        faults=[fault(HOSTILE)],
        failures=[HOSTILE],
    )
    reader = read(made)
    assert "b" not in reader.tags[reader.tags.index("h2") :]
    assert "onclick" not in {name for name, _ in reader.attributes}
    assert reader.tags.count("script") == 1
    assert reader.texts.count(HOSTILE) >= 5


def test_the_record_is_in_the_page() -> None:
    made = record(scenario=HOSTILE, faults=[fault("cut")], spans=[span(7, end_ns=None)])
    assert from_json(json.loads(read(made).record)) == made


def test_the_verdict_is_said() -> None:
    assert "verdict good" in read(record()).classes
    assert "verdict bad" in read(record(failures=["x"])).classes


def test_what_only_real_time_knows_is_shown() -> None:
    made = replace(
        record(),
        clock="real",
        target="bmv2",
        notes=[f"links lose nothing {HOSTILE}"],
        tables=[TableRecord("p0-t0-0", "aa", "aa"), TableRecord("p0-t0-1", "aa", "ab")],
        cpu_s={"h0": 1.25, "p0-t0-0": 2.5},
    )
    reader = read(made)
    assert any("real time on bmv2" in text for text in reader.texts)
    assert f"links lose nothing {HOSTILE}" in reader.texts
    assert "changed" in reader.texts and any("1 of 2 switches" in each for each in reader.texts)
    # Most first
    assert reader.texts.index("2.50 s") < reader.texts.index("1.25 s")
    assert any(each.startswith("3.8 s in all") for each in reader.texts)
    same = read(replace(made, tables=made.tables[:1]))
    assert any("All 1 switches hold the same" in text for text in same.texts)
    # In virtual time there is nothing of all this
    assert not {"Tables", "CPU by process"} & set(read(record()).texts)


def test_completions_have_a_bar_each() -> None:
    flows = [flow("a"), flow("b", "unfinished"), *(flow(f"f{index}") for index in range(40))]
    reader = read(record(flows=flows, samples=5))
    assert "c0" in reader.classes and "bad" in reader.classes
    assert reader.texts.count("unfinished") == 2
    assert "From start to completion. 10 more flows are not drawn." in reader.texts


def test_what_bad_paths_point_to_is_said() -> None:
    found = [SuspicionRecord(5000, ["p0-t1-1", HOSTILE], 2)]
    reader = read(replace(record(spans=[span(7)]), suspicions=found))
    assert f"p0-t1-1 or {HOSTILE}" in reader.texts


def test_faulted_links_are_marked() -> None:
    reader = read(record(faults=[fault("cut")]))
    assert sum("faulted" in classes for classes in reader.classes) == 1
    assert reader.classes.count("cross") == 2
    assert not any("faulted" in each for each in read(record()).classes)


@pytest.mark.parametrize("samples", [1, 2, 5, 4096])
def test_runs_of_any_length_are_drawn_within_the_picture(samples: int) -> None:
    reader = read(record(samples=samples, faults=[fault("cut")]))
    assert reader.coordinates and min(reader.coordinates) >= 0
    assert max(reader.coordinates) <= 960
    text = page(record(samples=samples))
    longest = max((len(each.split()) for each in re.findall(r'points="([^"]*)"', text)), default=0)
    assert longest <= 4 * 330


def test_bins_lose_nothing() -> None:
    made = record(samples=1001)
    bins = Bins.of(made)
    assert bins.width_ns == 4 * made.interval_ns
    assert bins.increases(made, made.series.lost) == [4] * 250
    assert bins.peaks(made, list(range(1001)))[:2] == [4, 8]


def test_many_evs_are_summed_up_those_out_of_use_first() -> None:
    spans = [*(span(ev, "SKIP") for ev in range(MAX_EV_ROWS)), span(1000)]
    made = record(spans=spans)
    rows, more = ev_rows(made)
    assert len(rows) == MAX_EV_ROWS and more == 1
    assert rows[0][0][3] == 1000
    assert any("1 more EVs are not drawn" in each for each in read(made).texts)


def test_many_flows_have_no_curves_but_rows() -> None:
    flows = [flow(f"flow-{index}") for index in range(MAX_CURVES + 1)]
    reader = read(record(flows=flows))
    assert not any(each.startswith("curve") for each in reader.classes)
    assert all(each.name in reader.texts for each in flows)


def test_load_is_that_of_the_busier_direction() -> None:
    link = LinkRecord("a--b", 0, "host", "a", "b", 10**9, 100, 500)
    assert load_of(link, 8000) == pytest.approx(0.5)
    free = LinkRecord("a--b", 0, "host", "a", "b", None, 100, 500)
    assert load_of(free, 8000) is None and load_of(link, 0) is None


@pytest.mark.parametrize(
    ("value", "expected"), [(0, 0), (0.3, 1), (1, 1), (1.2, 2), (7, 10), (99, 100), (99.7, 100)]
)
def test_round_numbers(value: float, expected: float) -> None:
    assert round_up(value) == expected


def test_flow_control_has_a_section_where_there_is_some() -> None:
    assert "Flow control" not in read(record()).texts
    ports = [PausedPortRecord(f"h{number}", 0, 12_500 - number) for number in range(20)]
    pauses = PauseRecord(
        pauses=7,
        frames_sent=15,
        frames_received=14,
        hosts_paused_ns=2500,
        switches_paused_ns=3_000_000,
        peak_buffer_bytes=110 * 1024,
        ports=ports,
    )
    made = replace(record(), pauses=pauses)
    reader = read(made)
    assert "Flow control" in reader.texts
    (said,) = (text for text in reader.texts if "15 pause frames sent, 14 received" in text)
    assert "7 pauses" in said and "2.5 µs" in said and "3 ms" in said and "110 KiB" in said
    row = reader.texts.index("h0, port 0")
    assert reader.texts[row : row + 3] == ["h0, port 0", "12.5 µs", "50.0 %"]
    assert "4 more ports were paused for less." in reader.texts
    assert from_json(json.loads(reader.record)) == made
    none = replace(record(), pauses=replace(pauses, ports=[]))
    assert "paused port" not in read(none).texts
