"""The state of the live router: records and events, and the pure fold from events to state."""
