"""Wide code: several neighbouring threads at once."""
