"""Panels, rows and dashboards as Grafana's classic JSON model has them."""

from dataclasses import dataclass

# Grafana 12. Later versions migrate it when they load it.
SCHEMA_VERSION = 41
GRID_WIDTH = 24

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}

# What queries select, written short. Routers have no label `node`, so the choice of nodes cannot
# apply to them; outside Kubernetes nothing has a namespace, which `.*` matches as well.
SELECTORS = {
    "<router>": 'namespace=~"$namespace", job=~"$job"',
    "<node>": 'namespace=~"$namespace", job=~"$job", node=~"$node"',
    "<group>": 'namespace=~"$namespace", job=~"$job", node=~"$node", group=~"$group"',
    "<rate>": "$__rate_interval",
}


def expand(text):
    """Puts the selectors in."""
    for short, long in SELECTORS.items():
        text = text.replace(short, long)
    return text


def quantile(q, metric, selector, by=""):
    """The quantile of a histogram, by labels (comma-separated)."""
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile({q}, sum by ({labels}) (rate({metric}_bucket{{{selector}}}[<rate>])))"


def mean(metric, selector, by=""):
    """The mean of a histogram over the interval, by labels."""
    total, count = (f"sum by ({by}) (rate({metric}_{part}{{{selector}}}[<rate>]))" for part in ("sum", "count"))
    return f"{total} / {count}"


@dataclass(frozen=True)
class Query:
    """One query of a panel. `may_be_empty` is the reason why a healthy cluster may answer nothing."""

    expr: str
    legend: str
    may_be_empty: str = ""
    instant: bool = False
    format: str = "time_series"

    def json(self, ref_id):
        return {
            "datasource": DATASOURCE,
            "editorMode": "code",
            "expr": expand(self.expr),
            "format": self.format,
            "instant": self.instant,
            "legendFormat": self.legend,
            "range": not self.instant,
            "refId": ref_id,
        }


@dataclass(frozen=True)
class Panel:
    """A panel: `shows` says what is seen, `bad` what to do when it looks bad."""

    title: str
    shows: str
    bad: str
    unit: str
    queries: tuple
    kind: str = "timeseries"
    width: int = 8
    height: int = 8
    # (from this value on, colour); below the first it is green.
    limits: tuple = ()
    stacked: bool = False
    decimals: int | None = None
    maximum: float | None = None

    def json(self, panel_id, x, y):
        defaults = {
            "color": {"mode": "thresholds" if self.kind in ("stat", "bargauge") else "palette-classic"},
            "custom": self._custom(),
            "mappings": [],
            "min": 0,
            "thresholds": {"mode": "absolute", "steps": self._steps()},
            "unit": self.unit,
        }
        if self.decimals is not None:
            defaults["decimals"] = self.decimals
        if self.maximum is not None:
            defaults["max"] = self.maximum
        return {
            "datasource": DATASOURCE,
            "description": f"{self.shows}\n\n**When it looks bad:** {self.bad}",
            "fieldConfig": {"defaults": defaults, "overrides": []},
            "gridPos": {"h": self.height, "w": self.width, "x": x, "y": y},
            "id": panel_id,
            "options": self._options(),
            "targets": [query.json(chr(ord("A") + at)) for at, query in enumerate(self.queries)],
            "title": self.title,
            "type": self.kind,
        }

    def _steps(self):
        return [{"color": "green", "value": None}] + [
            {"color": color, "value": value} for value, color in self.limits
        ]

    def _custom(self):
        if self.kind == "heatmap":
            return {"hideFrom": {"legend": False, "tooltip": False, "viz": False}}
        if self.kind != "timeseries":
            return {}
        return {
            "axisLabel": "",
            "axisPlacement": "auto",
            "drawStyle": "line",
            "fillOpacity": 30 if self.stacked else 8,
            "lineInterpolation": "linear",
            "lineWidth": 1,
            "pointSize": 4,
            "showPoints": "never",
            "spanNulls": False,
            "stacking": {"group": "A", "mode": "normal" if self.stacked else "none"},
            "thresholdsStyle": {"mode": "dashed" if self.limits else "off"},
        }

    def _options(self):
        last = {"calcs": ["lastNotNull"], "fields": "", "values": False}
        if self.kind == "stat":
            return {
                "colorMode": "background" if self.limits else "value",
                "graphMode": "area",
                "justifyMode": "auto",
                "orientation": "auto",
                "reduceOptions": last,
                "textMode": "auto",
                "wideLayout": True,
            }
        if self.kind == "bargauge":
            return {
                "displayMode": "gradient",
                "orientation": "horizontal",
                "reduceOptions": last,
                "showUnfilled": True,
                "valueMode": "color",
            }
        if self.kind == "heatmap":
            return {
                "calculate": False,
                "cellGap": 1,
                "color": {"mode": "scheme", "scheme": "Oranges", "steps": 64, "exponent": 0.5, "fill": "dark-orange"},
                "filterValues": {"le": 1e-9},
                "legend": {"show": True},
                "rowsFrame": {"layout": "auto"},
                "tooltip": {"mode": "single", "yHistogram": False},
                "yAxis": {"axisPlacement": "left", "reverse": False, "unit": self.unit},
            }
        return {
            "legend": {"calcs": ["lastNotNull", "max"], "displayMode": "table", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "desc"},
        }


@dataclass(frozen=True)
class Row:
    """A headline and the panels below it, which flow from left to right."""

    title: str
    panels: tuple


@dataclass(frozen=True)
class Dashboard:
    """A dashboard; `uid` is part of its address and must never change."""

    uid: str
    title: str
    description: str
    rows: tuple
    variables: tuple

    def json(self):
        return {
            "annotations": {"list": [_builtin_annotations()]},
            "description": self.description,
            "editable": True,
            "fiscalYearStartMonth": 0,
            "graphTooltip": 1,
            "id": None,
            "links": [_links()],
            "liveNow": False,
            "panels": _place(self.rows),
            "refresh": "30s",
            "schemaVersion": SCHEMA_VERSION,
            "tags": ["holdfast"],
            "templating": {"list": list(self.variables)},
            "time": {"from": "now-1h", "to": "now"},
            "timepicker": {},
            "timezone": "browser",
            "title": self.title,
            "uid": self.uid,
            "version": 1,
            "weekStart": "",
        }

    def may_be_empty(self):
        """Reasons by panel title and refId."""
        return {
            (panel.title, chr(ord("A") + at)): query.may_be_empty
            for row in self.rows
            for panel in row.panels
            for at, query in enumerate(panel.queries)
            if query.may_be_empty
        }


def _place(rows):
    """Gives every panel its id and its place; a line is as high as its highest panel."""
    placed, y, panel_id = [], 0, 0
    for row in rows:
        panel_id += 1
        placed.append(
            {
                "collapsed": False,
                "gridPos": {"h": 1, "w": GRID_WIDTH, "x": 0, "y": y},
                "id": panel_id,
                "panels": [],
                "title": row.title,
                "type": "row",
            }
        )
        y, x, line_height = y + 1, 0, 0
        for panel in row.panels:
            if x + panel.width > GRID_WIDTH:
                y, x, line_height = y + line_height, 0, 0
            panel_id += 1
            placed.append(panel.json(panel_id, x, y))
            x, line_height = x + panel.width, max(line_height, panel.height)
        y += line_height
    return placed


def _builtin_annotations():
    return {
        "builtIn": 1,
        "datasource": {"type": "grafana", "uid": "-- Grafana --"},
        "enable": True,
        "hide": True,
        "iconColor": "rgba(0, 211, 255, 1)",
        "name": "Annotations & Alerts",
        "type": "dashboard",
    }


def _links():
    return {
        "asDropdown": False,
        "icon": "external link",
        "includeVars": True,
        "keepTime": True,
        "tags": ["holdfast"],
        "targetBlank": False,
        "title": "Holdfast",
        "tooltip": "The other dashboards of Holdfast, with the same choices and time",
        "type": "dashboards",
        "url": "",
    }
