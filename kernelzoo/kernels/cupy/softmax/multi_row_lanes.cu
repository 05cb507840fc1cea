// Short contiguous rows pass through shared memory. LANES lanes process a row, or two of half precision and odd length.
//
// Two such rows fill complete words of four bytes. They share one word; each other word belongs to one row. So no lane
// tests where in a word its row begins.
#include "pairs.cuh"

// The rows of a warp, which copies them as one piece of memory, 16 bytes at a time. It waits for no other warp. ROWS is
// the least number of rows of N elements that fill complete words, WORDS. LANES lanes process them.
template <class T, int N, int LANES>
struct WarpRows {
  static constexpr int V = 16 / sizeof(T), HALF = N * sizeof(T) % 4 != 0, ROWS = 1 + HALF;
  static constexpr int WORDS = ROWS * N * sizeof(T) / 4;
  static constexpr int TILE = 32 / LANES * WORDS / 4;  // 16-byte vectors per warp
  static constexpr int WARP_ROWS = 32 / LANES * ROWS;
  static_assert(32 / LANES * WORDS % 4 == 0, "a warp's rows would end within 16 bytes");

  struct Word { u32 part[1]; };  // an array may alias others, so the compiler keeps the loads in order

  i64 first;      // the warp's first row
  int count;      // elements in the warp's rows
  Bytes16* tile;  // the warp's part of shared memory
  Word* words;    // the part of this group of lanes

  // `warp`: this warp's number in the grid; `rows`: rows in total; `memory`: the block's shared memory.
  __device__ WarpRows(i64 warp, i64 rows, Bytes16* memory) : first(warp * WARP_ROWS) {
    const i64 left = rows - first;
    count = left <= 0 ? 0 : (int)(left < WARP_ROWS ? left : WARP_ROWS) * N;
    tile = memory + threadIdx.x / 32 * TILE;
    words = (Word*)tile + threadIdx.x % 32 / LANES * WORDS;
  }

  __device__ bool full() const { return count == WARP_ROWS * N; }  // true for all but the problem's last warp

  // Copy the rows to shared memory, 16 bytes at a time if x is aligned (`packed`), else by elements.
  __device__ void read(const T* x, bool packed) {
    x += first * N;
    const int lane = threadIdx.x % 32;
    if (!packed) {
      for (int e = lane; e < count; e += 32) ((T*)tile)[e] = x[e];
    } else if (full()) {
      UNROLL for (int j = 0; j < TILE; j += 32) {
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

  __device__ void write(T* out, bool packed) const {
    out += first * N;
    const int lane = threadIdx.x % 32;
    __syncwarp();
    if (!packed) {
      for (int e = lane; e < count; e += 32) out[e] = ((const T*)tile)[e];
    } else if (full()) {
      constexpr int BATCH = 8;
      UNROLL for (int from = 0; from < TILE; from += BATCH * 32) {
        Bytes16 batch[BATCH];
        UNROLL for (int i = 0; i < BATCH; ++i) {
          const int j = from + i * 32;
          if (j + 32 <= TILE || j + lane < TILE) batch[i] = tile[j + lane];
        }
        UNROLL for (int i = 0; i < BATCH; ++i) {
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
};

// 1 / s for a sum of exponentials, which is at least 1. It has no branch for subnormals, unlike a division.
__device__ inline float reciprocal(float s) {
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(s));
  return fmaf(r, fmaf(-s, r, 1.0f), r);
}

// The number of blocks that fit in an SM's shared memory and registers, if a thread stores so many elements and 40
// other values.
template <class Rows>
__device__ constexpr int blocks_per_sm(int elements, int threads) {
  const int shared = 200 * 1024 / (threads / 32 * Rows::TILE * 16), registers = 65536 / ((elements + 40) * threads);
  const int blocks = shared < registers ? shared : registers;
  return blocks < 1 ? 1 : blocks < 1024 / threads ? blocks : 1024 / threads;
}

// How lanes share a row's complete words. Each lane has 32 / LANES adjacent words of each 32. So rows of an odd length
// in words cause no bank conflicts. Words after the last 32 are assigned one by one.
template <int WORDS, int LANES>
struct WordLayout {
  static constexpr int RUN = 32 / LANES, RUNS = WORDS / 32, REST = WORDS % 32;
  static constexpr int ITEMS = RUNS * RUN + (REST + LANES - 1) / LANES;
  __device__ static int place(int i, int lane) {
    return i < RUNS * RUN ? i / RUN * 32 + lane * RUN + i % RUN : RUNS * 32 + (i - RUNS * RUN) * LANES + lane;
  }
  __device__ static bool has(int i, int lane) {
    return REST % LANES == 0 || i + 1 < ITEMS || lane < REST % LANES;
  }
};

template <class T, int N, int LANES, int THREADS, bool EXACT = false>
__global__ void __launch_bounds__(THREADS, blocks_per_sm<WarpRows<T, N, LANES>>(N / LANES, THREADS))
    multi_row_lanes(const Problem given) {
  const Problem p = wait_for_previous_launch(given);
  constexpr int PER = 4 / sizeof(T), WHOLE = N / PER, HALF = N % PER;
  using Words = WordLayout<WHOLE, LANES>;
  constexpr int HELD = Words::ITEMS * PER + HALF;
  extern __shared__ Bytes16 memory[];
  WarpRows<T, N, LANES> rows(block_index() * (THREADS / 32) + threadIdx.x / 32, p.rows, memory);
  rows.read((const T*)p.x, !EXACT || misalignment(p.x) == 0);
  const int lane = threadIdx.x % LANES;
  const bool has_half = lane == LANES - 1;
  UNROLL for (int k = 0; k < rows.ROWS; ++k) {
    u32* words = (u32*)rows.words + k * (WHOLE + HALF);
    u16* half = (u16*)rows.words + k * N + (k == 0 ? N - 1 : 0);  // the element in the shared word of two rows
    float v[HELD], m = minus_infinity<float>(), s = 0, part = 0;
    UNROLL for (int i = 0; i < Words::ITEMS; ++i) {
      const bool has = Words::has(i, lane);
      const u32 word = has ? words[Words::place(i, lane)] : 0;
      if constexpr (PER == 2) {
        v[2 * i] = has ? widen(T{(u16)word}) : minus_infinity<float>();
        v[2 * i + 1] = has ? widen(T{(u16)(word >> 16)}) : minus_infinity<float>();
      } else {
        v[i] = has ? __uint_as_float(word) : minus_infinity<float>();
      }
    }
    if constexpr (HALF != 0) v[HELD - 1] = has_half ? widen(T{*half}) : minus_infinity<float>();
    i64 exact = 0;
    UNROLL for (int i = 0; i < HELD; ++i) m = maximum<EXACT>(m, v[i]);
    m = warp_max<LANES, 1, EXACT>(m);
    const float shift = zero_if_empty(m);
    UNROLL for (int i = 0; i < HELD; ++i) {
      v[i] = exponential(v[i] - shift);
      if constexpr (EXACT) exact += term<EXACT>(v[i]);
      part += v[i];  // sums of eight: in one long sum of equal terms, all rounding errors would have the same sign
      if (i % 8 == 7 || i + 1 == HELD) s += part, part = 0;
    }
    float inverse;
    if constexpr (EXACT) inverse = 1 / row_pair(m, warp_sum<LANES>(exact)).s;
    else inverse = reciprocal(warp_sum<LANES>(s));
    UNROLL for (int i = 0; i < Words::ITEMS; ++i) {
      u32 word;
      if constexpr (PER == 2) {
        word = pack_halves(v[2 * i] * inverse, v[2 * i + 1] * inverse, T{});
      } else {
        word = __float_as_uint(v[i] * inverse);
      }
      if (Words::has(i, lane)) words[Words::place(i, lane)] = word;
    }
    if constexpr (HALF != 0) if (has_half) narrow(v[HELD - 1] * inverse, *(T*)half);
  }
  rows.write((T*)p.out, !EXACT || misalignment(p.out) == 0);
}
