"""The dashboard: profit, market, views, strategies and the engine on one page that is read-only.

::

    runtime ──/v1/changes── Results ─▶ market ─▶ bars ─┐
       │  └──/v1/status, views ──▶ Results ────────────┤   ┌─▶ history ──┐                ┌─▶ page
       └──/v1/changes ──▶ opened (a page's view) ──────┼───┤             ├▶ frames ─▶ pages ─▶ page
    strategies ──▶ Algos ──────────────────────────────┤   └─▶ sections ─┘                └─▶ page
    exchange ──▶ Exchange: phases, ticks and lots ─────┘

`deltabook.dashboard.followers` has `Results`, `Algos` and `Exchange`; they ask by `deltabook.dashboard.peers`.
Peers are followed and histories kept whether a page is open or not. A page *pulls*: it asks for the next frame when it
has drawn the last. A frame holds what has changed since the one that the page has, each part encoded once for all pages
(`deltabook.dashboard.frames`), so that a page that stands still costs nothing and does not disturb the others. Figures
come from a peer; those that are read are formatted here, exactly, and those that are drawn are ticks and lots.
"""

from deltabook.dashboard.app import Dashboard, DashboardConfig
from deltabook.dashboard.errors import DashboardError
from deltabook.dashboard.peers import Peer
from deltabook.dashboard.process import DashboardProcess, dashboard_site, run
from deltabook.dashboard.scales import parse_scales

__all__ = [
    "Dashboard",
    "DashboardConfig",
    "DashboardError",
    "DashboardProcess",
    "Peer",
    "dashboard_site",
    "parse_scales",
    "run",
]
