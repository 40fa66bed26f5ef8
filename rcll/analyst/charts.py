"""The report's charts as Vega-Lite specifications: data in, plain values out; what draws them is the page's script.

Colours of axes and legends come from the page's style sheet, so that one drawing serves light, dark and paper.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

from rcll.frames import HALL_ORDER

Spec = dict[str, Any]
Rows = Sequence[dict[str, Any]]

_SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
_PALETTE = [
    *("#3b6fb6", "#d9822b", "#3f9b63", "#b8475a", "#7a5fb0", "#8a6d4f", "#c95fa4", "#6f7f8f", "#a8a23a", "#2f9fb0"),
    *("#7fa6dd", "#efb27a", "#86c8a0", "#dd8c99", "#b3a0dc", "#b9a189", "#e3a5cf", "#a9b5c1", "#d1cc7d", "#86cdd8"),
]
_CURVE_POINTS = 14
_LABEL_PIXELS = 11
#: Pixels for the names of a legend on a phone; letters of a name that takes less than half of them.
_LABEL_LIMIT, _SHORT_NAME, _FEW_NAMES = 210, 12, 6
_LAYER_NAMES = {0: "0 critical", 1: "1 important", 2: "2 normal", 3: "3 archive"}
_LAYER_COLOURS = ["#b8475a", "#d9822b", "#3b6fb6", "#a9b5c1", "#6f7f8f"]
#: Ribbons and banks beyond these would be a tangle.
MAX_RIBBONS, MAX_NODES = 60, 24


def rooms_by_halls(rows: Rows) -> Spec:
    """Heat map; ``rows`` have room, hall, n_units."""
    totals: dict[str, int] = {}
    for row in rows:
        totals[row["room"]] = totals.get(row["room"], 0) + row["n_units"]
    rooms = sorted(totals, key=lambda room: (-totals[room], room))
    halls = [*HALL_ORDER, *sorted({row["hall"] for row in rows} - set(HALL_ORDER))]
    largest = max((row["n_units"] for row in rows), default=1)
    encoding = {
        "x": {
            "field": "hall",
            "type": "nominal",
            "sort": halls,
            "title": None,
            "axis": {"orient": "top", "labelAngle": -30},
        },
        "y": {"field": "room", "type": "nominal", "sort": rooms, "title": None},
        "tooltip": _tooltip("room", "hall", "n_units"),
    }
    colour = {
        "field": "n_units",
        "type": "quantitative",
        "scale": {"type": "sqrt", "range": ["#dbe7f5", "#1f4e8c"]},
        "legend": None,
    }
    ink = {"condition": {"test": f"datum.n_units > {largest * 0.25}", "value": "white"}, "value": "#1a2330"}
    return _spec(
        rows,
        height=26 * len(rooms) + 8,
        description="Heat map: units of each room, by hall",
        encoding=encoding,
        layer=[
            {"mark": {"type": "rect", "cornerRadius": 3}, "encoding": {"color": colour}},
            {
                "mark": {"type": "text", "fontSize": 11},
                "encoding": {"text": {"field": "n_units", "type": "quantitative", "format": ",d"}, "color": ink},
            },
        ],
    )


def growth(rows: Rows) -> Spec:
    """New units a week, or a month where there are many; ``rows`` have bank, week, n_new."""
    weeks = {row["week"] for row in rows}
    unit = "utcyearmonth" if len(weeks) > 60 else "utcyearweek"  # noqa: PLR2004 - about a year
    dated = [{**row, "week": row["week"].isoformat()} for row in rows]
    return _spec(
        dated,
        height=260,
        description=f"Bars: new units a {'month' if unit.endswith('month') else 'week'}, by bank",
        mark={"type": "bar"},
        encoding={
            "x": {"field": "week", "timeUnit": unit, "type": "temporal", "title": None, "scale": {"type": "utc"}},
            "y": {"field": "n_new", "aggregate": "sum", "type": "quantitative", "title": "new units"},
            "color": _colour("bank", columns=_legend_columns(row["bank"] for row in rows)),
            "tooltip": [
                {"field": "bank", "type": "nominal"},
                {"field": "week", "timeUnit": unit, "type": "temporal", "title": "from"},
                {"field": "n_new", "aggregate": "sum", "type": "quantitative", "title": "new units"},
            ],
        },
    )


def layers(rows: Rows) -> Spec:
    """Share of each layer, by bank; ``rows`` have bank, layer, n_units."""
    named = [{**row, "rank": row["layer"], "layer": _LAYER_NAMES.get(row["layer"], "unset")} for row in rows]
    domain = [*_LAYER_NAMES.values(), *(["unset"] if any(row["layer"] == "unset" for row in named) else [])]
    return _spec(
        named,
        height=28 * len({row["bank"] for row in rows}) + 8,
        description="Stacked bars: share of each layer, by bank",
        mark={"type": "bar"},
        encoding={
            "y": {"field": "bank", "type": "nominal", "title": None},
            "x": {
                "field": "n_units",
                "type": "quantitative",
                "stack": "normalize",
                "title": "share of the bank's units",
            },
            "color": {
                "field": "layer",
                "type": "nominal",
                "scale": {"domain": domain, "range": _LAYER_COLOURS},
                "legend": {"title": None, "orient": "top", "columns": 2},
            },
            "order": {"field": "rank", "type": "quantitative"},
            "tooltip": _tooltip("bank", "layer", "n_units"),
        },
    )


def flow(rows: Rows) -> Spec:
    """Ribbons from the room before to the room after; ``rows`` have old_room, room, n_units, largest first."""
    kept = list(rows)[:MAX_RIBBONS]
    left, right = _stack(kept, "old_room"), _stack(kept, "room")
    total = sum(row["n_units"] for row in kept)
    height = max(260, 28 * max(len(left), len(right)))
    names = {"old_room": "before", "room": "after", "n_units": "units"}
    ribbons = [point for row in _with_places(kept, left, right) for point in _ribbon(row)]
    nodes = [_node(name, place, side) for side, places in ((0, left), (1, right)) for name, place in places.items()]
    shown = [node for node in nodes if node["high"] - node["low"] >= total * _LABEL_PIXELS / height]
    x = {"field": "x", "type": "quantitative", "axis": None, "scale": {"domain": [-0.8, 2.0], "nice": False}}
    y = {"type": "quantitative", "axis": None, "scale": {"domain": [0, max(total, 1)], "reverse": True, "nice": False}}
    tooltip = [{"field": field, "title": title} for field, title in names.items()]
    label = {"text": {"field": "label"}, "x": x, "y": {**y, "field": "middle"}}
    texts = [
        {
            "data": {"values": [node for node in shown if node["side"] == side]},
            "mark": {"type": "text", "align": align, "dx": dx, "fontSize": 11, "baseline": "middle", "limit": 150},
            "encoding": label,
        }
        for side, align, dx in ((0, "right", -8), (1, "left", 8))
    ]
    return _spec(
        [],
        height=height,
        description="Flow: rooms before the run on the left, after it on the right",
        layer=[
            {
                "data": {"values": ribbons},
                "mark": {"type": "area", "opacity": 0.45},
                "encoding": {
                    "x": x,
                    "y": {**y, "field": "low"},
                    "y2": {"field": "high"},
                    "detail": {"field": "ribbon"},
                    "color": _colour("room", legend=False),
                    "tooltip": tooltip,
                },
            },
            {
                "data": {"values": nodes},
                "mark": {"type": "rect"},
                "encoding": {
                    "x": {**x, "field": "x"},
                    "x2": {"field": "x2"},
                    "y": {**y, "field": "low"},
                    "y2": {"field": "high"},
                    "color": _colour("room", legend=False),
                    "tooltip": [{"field": "label", "title": "room"}],
                },
            },
            *texts,
        ],
    )


def tunnels(rows: Rows) -> Spec:
    """Banks on a circle, tunnels between them as curves; ``rows`` have bank_a, bank_b, n_tunnels, relationships."""
    banks: dict[str, int] = {}
    for row in rows:
        for bank in (row["bank_a"], row["bank_b"]):
            banks[bank] = banks.get(bank, 0) + row["n_tunnels"]
    kept = sorted(sorted(banks, key=lambda bank: (-banks[bank], bank))[:MAX_NODES])
    angles = {bank: 2 * math.pi * (n + 0.25) / len(kept) for n, bank in enumerate(kept)}
    places = {bank: (math.cos(angle), math.sin(angle)) for bank, angle in angles.items()}
    curves = [
        {**_plain_tunnel(row), "edge": n, "x": x, "y": y, "step": step}
        for n, row in enumerate(rows)
        if row["bank_a"] in places and row["bank_b"] in places
        for step, (x, y) in enumerate(_curve(places[row["bank_a"]], places[row["bank_b"]]))
    ]
    nodes = [{"bank": bank, "n_tunnels": banks[bank], "x": x, "y": y} for bank, (x, y) in places.items()]
    names = [{"bank": bank, "x": x * 1.12, "y": y + math.copysign(0.2, y)} for bank, (x, y) in places.items()]
    x = {"field": "x", "type": "quantitative", "axis": None, "scale": {"domain": [-1.7, 1.7]}}
    y = {"field": "y", "type": "quantitative", "axis": None, "scale": {"domain": [-1.25, 1.25]}}
    width = {
        "field": "n_tunnels",
        "type": "quantitative",
        "scale": {"type": "sqrt", "range": [1.5, 14]},
        "legend": None,
    }
    return _spec(
        [],
        height=340,
        description="Graph: banks as circles, tunnels between them as curves; the thicker, the more",
        layer=[
            {
                "data": {"values": curves},
                "mark": {"type": "line", "opacity": 0.55, "color": _PALETTE[0], "strokeCap": "round"},
                "encoding": {
                    "x": x,
                    "y": y,
                    "order": {"field": "step"},
                    "detail": {"field": "edge"},
                    "strokeWidth": width,
                    "tooltip": _tooltip("bank_a", "bank_b", "n_tunnels", "relationships"),
                },
            },
            {
                "data": {"values": nodes},
                "mark": {"type": "circle", "size": 320, "opacity": 1, "color": _PALETTE[1]},
                "encoding": {"x": x, "y": y, "tooltip": _tooltip("bank", "n_tunnels")},
            },
            {
                "data": {"values": names},
                "mark": {"type": "text", "baseline": "middle", "fontSize": 12, "limit": 150},
                "encoding": {"x": x, "y": y, "text": {"field": "bank"}},
            },
        ],
    )


def per_label(rows: Rows) -> Spec:
    """Precision and recall of each label against a labelled set; ``rows`` have label, measure, value."""
    return _spec(
        rows,
        height=26 * len({row["label"] for row in rows}) + 8,
        description="Bars: precision and recall of each room, against the labelled set",
        mark={"type": "bar"},
        encoding={
            "y": {"field": "label", "type": "nominal", "title": None},
            "yOffset": {"field": "measure"},
            "x": {"field": "value", "type": "quantitative", "title": None, "scale": {"domain": [0, 1]}},
            "color": _colour("measure"),
            "tooltip": _tooltip("label", "measure", "value"),
        },
    )


def _spec(rows: Rows, *, height: Any, description: str, **parts: Any) -> Spec:
    data = {"data": {"values": list(rows)}} if rows else {}
    return {
        "$schema": _SCHEMA,
        "description": description,
        "width": "container",
        "height": height,
        "background": None,
        "config": {
            "view": {"stroke": None},
            "font": "system-ui, sans-serif",
            "axis": {"labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal", "labelLimit": 160},
            "legend": {"labelFontSize": 12, "symbolType": "square"},
        },
        **data,
        **parts,
    }


def _legend_columns(names: Iterable[str]) -> int:
    """One column where a few long names would not fit beside one another on a phone."""
    different = set(names)
    return 1 if len(different) <= _FEW_NAMES and any(len(name) > _SHORT_NAME for name in different) else 2


def _colour(field: str, *, legend: bool = True, columns: int = 2) -> Spec:
    limit = _LABEL_LIMIT // columns
    shown = {"title": None, "orient": "top", "columns": columns, "labelLimit": limit} if legend else None
    return {"field": field, "type": "nominal", "scale": {"range": _PALETTE}, "legend": shown}


def _tooltip(*fields: str) -> list[Spec]:
    return [{"field": field, "title": field.removeprefix("n_").replace("_", " ")} for field in fields]


def _stack(rows: Rows, field: str) -> dict[str, list[float]]:
    """Where each room lies on its side: [low, high, next free place], largest on top."""
    sizes: dict[str, int] = {}
    for row in rows:
        sizes[row[field]] = sizes.get(row[field], 0) + row["n_units"]
    places: dict[str, list[float]] = {}
    low = 0.0
    for name in sorted(sizes, key=lambda name: (-sizes[name], name)):
        places[name] = [low, low + sizes[name], low]
        low += sizes[name]
    return places


def _with_places(rows: Rows, left: dict[str, list[float]], right: dict[str, list[float]]) -> list[dict[str, Any]]:
    """Give each row its stretch on both sides, in the order in which the rooms lie there."""
    ordered = sorted(rows, key=lambda row: (left[row["old_room"]][0], right[row["room"]][0]))
    placed: list[dict[str, Any]] = []
    for number, row in enumerate(ordered):
        starts: list[float] = []
        for place in (left[row["old_room"]], right[row["room"]]):
            starts.append(place[2])
            place[2] += row["n_units"]
        placed.append({**row, "ribbon": number, "from": starts[0], "to": starts[1]})
    return placed


def _ribbon(row: dict[str, Any]) -> list[dict[str, Any]]:
    """Points of a smooth band between the two sides."""
    values = {name: row[name] for name in ("ribbon", "old_room", "room", "n_units")}
    points: list[dict[str, Any]] = []
    for step in range(_CURVE_POINTS + 1):
        share = step / _CURVE_POINTS
        bend = share * share * (3 - 2 * share)
        low = row["from"] + (row["to"] - row["from"]) * bend
        points.append({**values, "x": round(share, 3), "low": round(low, 2), "high": round(low + row["n_units"], 2)})
    return points


def _node(name: str, place: list[float], side: int) -> dict[str, Any]:
    low, high, _ = place
    x = side + (0.005 if side else -0.025)
    label = f"{name[:24]} {high - low:,.0f}"
    edges = {"low": low, "high": high, "middle": (low + high) / 2, "x": x, "x2": x + 0.02}
    return {"room": name, "side": side, "label": label, **edges}


def _plain_tunnel(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("bank_a", "bank_b", "n_tunnels", "relationships")}


def _curve(start: tuple[float, float], end: tuple[float, float]) -> list[tuple[float, float]]:
    """Points of a curve that is drawn a little towards the middle of the circle."""
    points: list[tuple[float, float]] = []
    for step in range(_CURVE_POINTS + 1):
        t = step / _CURVE_POINTS
        ends = (1 - t) ** 2, t**2
        bend = 2 * t * (1 - t) * 0.35
        x, y = (ends[0] * start[i] + ends[1] * end[i] + bend * (start[i] + end[i]) / 2 for i in (0, 1))
        points.append((round(x, 4), round(y, 4)))
    return points
