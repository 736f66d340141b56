"""Environments, the runner of policies, and the exchange that executes plans on recorded books."""
