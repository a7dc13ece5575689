"""What the dashboards and the alert rules say. `grafana/generate.py` writes them to files."""
