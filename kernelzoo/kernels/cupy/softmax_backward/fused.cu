// A block reads a row, or several short rows or columns, once and keeps them in registers.
#include "gradient.cuh"
#include "../gradients/fused.cuh"
