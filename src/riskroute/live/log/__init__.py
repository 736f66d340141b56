"""The hash-chained event log of the live router: interface, storage, group commit, export and recovery."""
