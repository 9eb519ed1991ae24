"""How bytes become events. No provider knowledge, no network, no clock."""
