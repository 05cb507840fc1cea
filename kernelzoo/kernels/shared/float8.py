"""Constants of float8_e4m3fn for quantisation."""

TOP = 448.0
"""The largest finite number."""

LEAST = TOP * 2.0**-126
"""The smallest absolute maximum for which a row is scaled. Its scale is the smallest normal float32."""
