"""Records, protocols, laws, rules and randomness: numpy and the standard library only."""
