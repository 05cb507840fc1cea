// One block per row, or several short ones, or columns, which stay in registers, read once.
#include "gradient.cuh"
#include "../gradients/fused.cuh"
