"""What a monitor reads of a dashboard."""

from __future__ import annotations

from deltabook.dashboard.process import DashboardMetrics
from tests.generators.monitored import read_samples

FIGURES: dict[str, int | float | str | None] = {
    "pages": 3,
    "stuck_pages": 1,
    "frames_sent": 40,
    "frames_encoded": 20,
    "bytes_sent": 12_345,
    "symbols": 2,
    "results": "live",
    "algo": "lost",
    "exchange": "off",
}


def test_pages_and_peers_are_told() -> None:
    text, _ = DashboardMetrics(lambda: FIGURES, "loop-7").answer("")
    found = {(n.removeprefix("deltabook_dashboard_"), *labels): v for (n, *labels), v in read_samples(text).items()}
    assert (found["pages",], found["stuck_pages",], found["symbols",]) == (3, 1, 2)
    assert (found["frames_sent_total",], found["frames_encoded_total",], found["bytes_sent_total",]) == (40, 20, 12_345)
    assert [key[1:] for key in found if key[0] == "peer" and found[key]] == [
        ("results", "live"),
        ("algo", "lost"),
        ("exchange", "off"),
    ]
