"""Running sums in CuTe."""
