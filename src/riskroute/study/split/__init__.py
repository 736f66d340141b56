"""The split study: from market data to a fixed split."""
