"""The hash-chained event log of the live router: interface, stores, group commit, export and recovery."""
