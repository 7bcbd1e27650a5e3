"""What Prometheus may ask of the API."""

from __future__ import annotations

from prometheus_client import Counter, Gauge

from app.telemetry.metrics import Metrics


class ApiMetrics:
    """Counts requests by route and status; 499 is a client that went away before its answer was complete."""

    def __init__(self, metrics: Metrics) -> None:
        self.requests = Counter(
            "parley_api_requests", "API requests, by route and status", ["route", "status"], registry=metrics.registry
        )
        self.open = Gauge("parley_api_requests_open", "API requests being answered", registry=metrics.registry)
