// A block reads a row, or several short ones or columns, once and keeps one bit per element in registers.
#include "gradient.cuh"
#include "../gradients/fused.cuh"
