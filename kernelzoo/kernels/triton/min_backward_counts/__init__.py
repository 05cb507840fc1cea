"""How many minima rows have, in Triton."""
