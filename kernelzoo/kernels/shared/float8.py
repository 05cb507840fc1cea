"""The numbers of float8_e4m3fn that quantising needs."""

TOP = 448.0
"""The largest."""

LEAST = TOP * 2.0**-126
"""The least maximum of a row that is scaled: its scale is the smallest normal float32."""
