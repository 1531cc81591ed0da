"""How long work takes on the modelled device."""
