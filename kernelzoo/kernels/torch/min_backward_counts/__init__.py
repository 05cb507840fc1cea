"""How many minima rows have, in torch."""
