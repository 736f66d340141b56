"""The HTTP service of the live router: API, dashboard and metrics."""
