"""A softmax's gradient by totals of rows that are known, in Triton."""
