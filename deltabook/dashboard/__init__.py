"""The dashboard: the market, the views, the strategies and the engine on one page that is only looked at.

::

    runtime ──/v1/changes── results ─▶ market ─┐                  ┌─▶ page
       │  └──/v1/status, views ──▶ results ────┼─▶ panels, lists ─▶ frames ─▶ pages ─▶ page
       └──/v1/views/NAME ──▶ looks ────────────┤        ▲         └─▶ page
    strategies ──▶ algos ──────────────────────┘      scales
    exchange ──▶ exchange: phases, ticks and lots ──────┘

Peers are followed whether somebody looks or not; a page *pulls*: it asks for the next frame when it has drawn the last.
A frame holds the sections that have changed since the one that the page has, each encoded once for all pages
(`deltabook.dashboard.frames`), so that a page that stands still costs nothing and the others notice nothing of it.
Whatever is shown comes from a peer; figures are formatted here, exactly, and a page writes them as they are.
"""

from deltabook.dashboard.app import Dashboard, DashboardConfig
from deltabook.dashboard.errors import DashboardError
from deltabook.dashboard.peers import Peer
from deltabook.dashboard.process import DashboardProcess, run
from deltabook.dashboard.scales import parse_scales
from deltabook.dashboard.site import dashboard_site

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
