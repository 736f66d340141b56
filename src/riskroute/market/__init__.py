"""From market data to venue models: readers, snapshots, sampling, calibration, a synthetic market."""
