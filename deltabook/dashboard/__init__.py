"""The dashboard: profit, market, views, strategies and the engine on one read-only page.

::

    runtime ──/v1/changes ──▶ market ─▶ bars ──────────┐
       │  └──/v1/status, views ──▶ ResultsFollower ────┤   ┌─▶ history ──┐                ┌─▶ page
       └──/v1/changes ──▶ opened (a page's view) ──────┼───┤             ├▶ frames ─▶ pages ─▶ page
    strategies ──▶ AlgoFollower ───────────────────────┤   └─▶ sections ─┘                └─▶ page
    exchange ──▶ ExchangeFollower: phases, scales ─────┘

`deltabook.dashboard.followers` has a follower for each of the three peers, which sends requests through
`deltabook.dashboard.peers`. Peers are followed and histories recorded whether a page is open or not. A page *pulls*: it
requests the next frame when it has drawn the previous one. A frame has the changes since the page's previous frame.
Each part is encoded once for all pages (`deltabook.dashboard.frames`), and a part that does not change costs nothing.
Figures come from the peers. The dashboard formats figures in texts exactly; charts receive prices and quantities in
ticks and lots.
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
