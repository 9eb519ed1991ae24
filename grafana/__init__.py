"""The Grafana dashboards, built in Python and committed as JSON.

`python -m grafana` (or `make dashboards`) writes `grafana/dashboards/*.json` and `docs/dashboards.md`.
Metric names, units and formulas come from `llmload.metrics.definitions`.
"""
