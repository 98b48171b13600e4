"""The style sheet of the pages, light and dark by what the reader's system prefers."""

from __future__ import annotations

from typing import Final

#: Steps of load on links, classes l0 (nothing) to l5 (80 % and more)
LOAD_STEPS: Final = 6
#: Colours that planes and flows take in turn, classes c0, c1, ...
COLOURS: Final = 8

STYLE: Final = """
:root { color-scheme: light dark;
  --bg: #ffffff; --fg: #1b1f24; --dim: #667080; --line: #d5dae1; --panel: #f6f8fa;
  --good: #1a7f37; --bad: #cf222e; --band: #cf222e22; --node: #ffffff;
  --l0: #d5dae1; --l1: #b9d6ef; --l2: #7fb4de; --l3: #3f88c5; --l4: #1b5e9c; --l5: #0b3565;
  --c0: #3b7dd8; --c1: #e08a1e; --c2: #2f9e62; --c3: #c2453d; --c4: #8a63c9; --c5: #8c6239;
  --c6: #d667a8; --c7: #5f6b7a; }
@media (prefers-color-scheme: dark) { :root {
  --bg: #0f1318; --fg: #e3e8ee; --dim: #93a0b0; --line: #303843; --panel: #171d24;
  --good: #4fc36f; --bad: #ff6b64; --band: #ff6b6430; --node: #0f1318;
  --l0: #303843; --l1: #29486a; --l2: #2f6ba6; --l3: #4a94d8; --l4: #86bdf0; --l5: #d2e8ff;
  --c0: #5b9bf0; --c1: #f0a848; --c2: #52c285; --c3: #ec7068; --c4: #ad8cea; --c5: #b98d63;
  --c6: #ec8dc3; --c7: #97a4b4; } }
body { margin: 0 auto; padding: 24px; max-width: 1040px; background: var(--bg); color: var(--fg);
  font: 15px/1.45 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
h1 { font-size: 26px; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 17px; margin: 32px 0 4px; }
p { margin: 4px 0 8px; } .dim { color: var(--dim); }
.verdict { border-left: 4px solid; padding: 6px 12px; margin: 14px 0; background: var(--panel); }
.verdict.good { border-color: var(--good); } .verdict.bad { border-color: var(--bad); }
.verdict ul { margin: 4px 0; padding-left: 20px; }
.tiles { display: flex; flex-wrap: wrap; gap: 8px; margin: 12px 0; }
.tiles div { background: var(--panel); border-radius: 6px; padding: 6px 12px; min-width: 84px; }
.tiles b { display: block; font-size: 18px; font-variant-numeric: tabular-nums; }
.tiles span { color: var(--dim); font-size: 12px; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 12px; font-variant-numeric: tabular-nums; }
th { color: var(--dim); font-weight: 500; }
th, td { padding: 3px 7px; text-align: right; border-bottom: 1px solid var(--line);
  white-space: nowrap; }
th.t, td.t { text-align: left; } td.w { white-space: normal; min-width: 150px; }
td.bad { color: var(--bad); }
.chart { overflow-x: auto; }
svg { display: block; width: 100%; min-width: 760px; height: auto; }
svg text { fill: var(--fg); font-size: 11px; } svg text.dim { fill: var(--dim); }
svg text.s { font-size: 9px; } svg text.m { text-anchor: middle; } svg text.e { text-anchor: end; }
svg text.on { fill: var(--node); font-weight: 600; }
svg text.f { fill: var(--bad); font-weight: 600; }
.grid { stroke: var(--line); stroke-width: 1; } .panel { fill: var(--panel); }
.band { fill: var(--band); } .hover { fill: transparent; }
.edge { stroke: var(--bad); stroke-dasharray: 3 3; }
.total { fill: none; stroke: var(--fg); stroke-width: 1.6; } .area { fill: var(--l1); opacity: .6; }
.curve { fill: none; stroke-width: 1.4; }
.step { fill: none; stroke: var(--c0); stroke-width: 1.3; }
.node { fill: var(--node); stroke: var(--dim); stroke-width: 1.2; }
.node.faulted { stroke: var(--bad); stroke-width: 2.4; }
.link.faulted { stroke: var(--bad); stroke-dasharray: 4 3; }
.cross { stroke: var(--bad); stroke-width: 2.2; }
.ASSUMED_BAD { fill: var(--bad); } .DENIED { fill: var(--c4); } .SKIP { fill: var(--c1); }
.other { fill: var(--c7); } rect.bad { fill: var(--bad); }
.notes { margin: 4px 0; padding-left: 20px; } span.good { color: var(--good); }
p.bad { color: var(--bad); } .wide + .wide, .chart + .wide { margin-top: 14px; }
code { font: 12px ui-monospace, "DejaVu Sans Mono", monospace; }
.key { display: flex; flex-wrap: wrap; gap: 4px 14px; font-size: 12px; color: var(--dim);
  margin: 2px 0 6px; }
.key i { display: inline-block; width: 14px; height: 10px; margin-right: 5px; border-radius: 2px; }
"""


def style_sheet() -> str:
    """All of it, the classes of load and colour among it."""
    lines = [STYLE]
    for step in range(LOAD_STEPS):
        width = 0.8 + 0.5 * step
        lines.append(f".l{step} {{ stroke: var(--l{step}); stroke-width: {width:.1f}; }}\n")
        lines.append(f"i.l{step} {{ background: var(--l{step}); }}\n")
    for colour in range(COLOURS):
        lines.append(f".k{colour} {{ stroke: var(--c{colour}); }}\n")
        lines.append(f".c{colour}, i.c{colour} {{ fill: var(--c{colour}); }}\n")
        lines.append(f"i.c{colour} {{ background: var(--c{colour}); }}\n")
    for state, of in (
        ("ASSUMED_BAD", "bad"),
        ("DENIED", "c4"),
        ("SKIP", "c1"),
        ("other", "c7"),
    ):
        lines.append(f"i.{state} {{ background: var(--{of}); }}\n")
    return "".join(lines)
