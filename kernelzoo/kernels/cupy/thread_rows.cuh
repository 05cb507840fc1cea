// Short rows that are one piece of memory, as many to a thread, or to LANES lanes, as fill whole words of shared memory.
//
// ROWS rows of N elements fill WORDS words of BYTES bytes, and no fewer do: no word is shared with other rows, and where
// a row begins within the words is known to the compiler. A warp copies all of its rows as they lie in memory, 16 bytes
// at a time, and waits for no other warp. Where WORDS is odd, threads that are WORDS words apart meet in no bank.
#ifndef KERNELZOO_THREAD_ROWS_CUH
#define KERNELZOO_THREAD_ROWS_CUH

#include "row.cuh"

__device__ constexpr int common_divisor(int a, int b) { return b == 0 ? a : common_divisor(b, a % b); }

template <class T, int N, int BYTES, int LANES = 1>
struct ThreadRows {
  static constexpr int V = 16 / sizeof(T), EACH = BYTES / sizeof(T);
  static constexpr int ROWS = EACH / common_divisor(N, EACH), WORDS = N / common_divisor(N, EACH);
  static constexpr int HELD = WORDS * BYTES / 4;                // 4 bytes each, of a thread
  static constexpr int TILE = 32 / LANES * WORDS * BYTES / 16;  // 16 bytes each, of a warp
  static constexpr int WARP_ROWS = 32 / LANES * ROWS;
  static_assert(32 / LANES * WORDS * BYTES % 16 == 0, "a warp's rows would end within 16 bytes");

  struct alignas(BYTES) Word { u32 part[BYTES / 4]; };

  i64 first;       // row of the warp
  int count;       // elements of the warp's rows
  Bytes16* tile;   // the warp's
  Word* words;     // this thread's, or its lanes'
  u32 held[HELD];  // what a thread of its own has read of them

  // The rows of this warp, of those in the problem, and its part of the block's shared memory.
  __device__ ThreadRows(i64 warp, i64 rows, Bytes16* memory) : first(warp * WARP_ROWS) {
    const i64 left = rows - first;
    count = left <= 0 ? 0 : (int)(left < WARP_ROWS ? left : WARP_ROWS) * N;
    tile = memory + threadIdx.x / 32 * TILE;
    words = (Word*)tile + threadIdx.x % 32 / LANES * WORDS;
  }

  __device__ bool full() const { return count == WARP_ROWS * N; }  // all but the last warp of the problem

  __device__ void read(const T* x) {
    x += first * N;
    const int lane = threadIdx.x % 32;
    if (full()) {
#pragma unroll
      for (int j = 0; j < TILE; j += 32) {
        if (j + 32 <= TILE || j + lane < TILE) copy_async(tile + j + lane, x + (j + lane) * V);
      }
    } else {
#pragma unroll 1
      for (int j = lane; j < count / V; j += 32) copy_async(tile + j, x + j * V);
      if (const int e = count / V * V + lane; e < count) ((T*)tile)[e] = x[e];  // fewer than V
    }
    wait_async();
    __syncwarp();
  }

  __device__ void write(T* out) const {
    out += first * N;
    const int lane = threadIdx.x % 32;
    __syncwarp();
    if (full()) {
      constexpr int BATCH = 8;
#pragma unroll
      for (int from = 0; from < TILE; from += BATCH * 32) {
        Bytes16 batch[BATCH];
#pragma unroll
        for (int i = 0; i < BATCH; ++i) {
          const int j = from + i * 32;
          if (j + 32 <= TILE || j + lane < TILE) batch[i] = tile[j + lane];
        }
#pragma unroll
        for (int i = 0; i < BATCH; ++i) {
          const int j = from + i * 32;
          if (j + 32 <= TILE || j + lane < TILE) store_plain(out + (j + lane) * V, batch[i]);
        }
      }
    } else {
#pragma unroll 1
      for (int j = lane; j < count / V; j += 32) store_plain(out + j * V, tile[j]);
      if (const int e = count / V * V + lane; e < count) out[e] = ((const T*)tile)[e];
    }
  }

  // Words up to the last one of row k, but for those of the rows before; and back, where no later row is in them.
  __device__ static constexpr int touched(int k) { return (k * N + EACH - 1) / EACH; }
  __device__ static constexpr int done(int k) { return k * N / EACH; }
  __device__ void take(int k) {
#pragma unroll
    for (int w = 0; w < WORDS; ++w) {
      if (touched(k) <= w && w < touched(k + 1)) {
        const Word word = words[w];
#pragma unroll
        for (int i = 0; i < BYTES / 4; ++i) held[w * BYTES / 4 + i] = word.part[i];
      }
    }
  }
  __device__ void give(int k) {
#pragma unroll
    for (int w = 0; w < WORDS; ++w) {
      if (done(k) <= w && w < done(k + 1)) {
        Word word;
#pragma unroll
        for (int i = 0; i < BYTES / 4; ++i) word.part[i] = held[w * BYTES / 4 + i];
        words[w] = word;
      }
    }
  }
};

// As many blocks of an SM as have room in shared memory, where a thread has registers for so many elements at once, and
// for 40 other values.
template <class Rows>
__device__ constexpr int resident(int elements, int threads) {
  const int shared = 200 * 1024 / (threads / 32 * Rows::TILE * 16), registers = 65536 / ((elements + 40) * threads);
  const int blocks = shared < registers ? shared : registers;
  return blocks < 1 ? 1 : blocks < 1024 / threads ? blocks : 1024 / threads;
}

#endif
