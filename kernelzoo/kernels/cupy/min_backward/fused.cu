// A block reads a row, or several short rows or columns, once. It keeps one bit per element in registers.
#include "gradient.cuh"
#include "../gradients/fused.cuh"
