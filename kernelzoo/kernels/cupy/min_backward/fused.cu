// One block per row, or several short ones, or columns, which stay in registers, a bit to an element, read once.
#include "gradient.cuh"
#include "../gradients/fused.cuh"
