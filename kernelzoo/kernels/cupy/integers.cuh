// Integers are added up in 64 bits.
#pragma once
#include "device_functions.cuh"

__device__ inline i64 widen(int v) { return v; }  // of 8, 16 or 32 bits
__device__ inline i64 widen(i64 v) { return v; }
__device__ inline void narrow(i64 v, i64& to) { to = v; }
