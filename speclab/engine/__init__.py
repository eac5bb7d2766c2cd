"""The one decode loop, the memo session, clocks and the torch mirror of the verifier."""
