// The arithmetic of a minimum's gradient. In each row, `count` elements equal the minimum y. Their gradient is grad /
// count. The others' is grad * 0, or NaN if count is 0.
#pragma once
#include "../gradients/multi_input.cuh"

// All bits set if a == b, else none. In PTX, because cupy compiles with -ftz=true, which flushes subnormals to zero.
__device__ inline u32 equal(float a, float b) {
  u32 bits;
  asm("set.eq.u32.f32 %0, %1, %2;" : "=r"(bits) : "f"(a), "f"(b));
  return bits;
}
__device__ inline u32 equal(double a, double b) { return a == b ? 0xffffffffu : 0u; }

// Returns v. The compiler can't see its value, so it does not repeat the division for each element with that quotient.
__device__ inline float opaque(float v) { asm volatile("" : "+f"(v)); return v; }
__device__ inline double opaque(double v) { asm volatile("" : "+d"(v)); return v; }

// Returns 0 in a way that depends on all packs: else the compiler would compare one before it loads the next. In a
// thread without packs (left < 0) the result may be any bits.
template <class T, int V, int COUNT>
__device__ inline u32 zero_after(const Pack<T, V> (&packs)[COUNT], i64 left) {
  u32 bits = 0;
  if constexpr (V > 1) UNROLL for (int i = 0; i < COUNT; ++i) bits |= packs[i].raw.word[3];
  return bits & (u32)(left >> 63);
}
__device__ inline float with_bits_flipped(float v, u32 bits) { return __uint_as_float(__float_as_uint(v) ^ bits); }
__device__ inline double with_bits_flipped(double v, u32 bits) {
  return __hiloint2double(__double2hiint(v), __double2loint(v) ^ (int)bits);
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
constexpr bool NEW = true;  // newer than Hopper
#else
constexpr bool NEW = false;
#endif

template <class T>
struct Gradient {
  using W = Wide<T>;
  using Total = u64;
  static constexpr int INPUTS = 1, OTHERS = 2;  // INPUTS: x. OTHERS: y and grad, one element per row

  struct Key { W y, grad; };
  __device__ static Key key(const MultiInput<2>& p, i64 outer, i64 inner) {
    const T* y = (const T*)p.other[0] + outer * p.strides[0].outer + inner * p.strides[0].inner;
    const T* grad = (const T*)p.other[1] + outer * p.strides[1].outer + inner * p.strides[1].inner;
    return {widen(*y), widen(*grad)};
  }

  // The gradient of an element that equals the minimum, and of one that doesn't.
  struct Result { W hit, miss; };
  __device__ static Result result(Key key, Total count) {
    return {opaque(key.grad / (W)count), key.grad * (count ? W(0) : W(__int_as_float(0x7fffffff)))};
  }

  // One bit per element: whether the element equals the minimum.
  template <int V, int COLUMNS, int ITEMS>
  struct Packs {
    static constexpr int WORDS = (ITEMS * V + 31) / 32;
    static constexpr int MOST = sizeof(T) == 8 || ITEMS > 32 || NEW ? 4 : 8;  // packs loaded at once; more would spill
    static constexpr int AT_ONCE = ITEMS < MOST ? ITEMS : MOST;
    u32 bits[WORDS];

    template <bool KEPT>
    __device__ void load(const ThreadPacks<T, V, 1>& walk, const Key (&key)[COLUMNS], i64 first) {
      UNROLL for (int k = 0; k < WORDS; ++k) bits[k] = 0;
      UNROLL for (int from = 0; from < ITEMS; from += AT_ONCE) {
        Pack<T, V> x[AT_ONCE];
        UNROLL for (int i = 0; i < AT_ONCE; ++i) x[i] = walk.template load<KEPT>(0, first + from + i);
        W y[COLUMNS];
        const u32 none = zero_after(x, walk.left);
        UNROLL for (int k = 0; k < COLUMNS; ++k) y[k] = with_bits_flipped(key[k].y, none);
        UNROLL for (int i = 0; i < AT_ONCE; ++i) {
          W v[V];
          x[i].get(v);
          const u32 there = walk.inside(first + from + i) ? 0xffffffffu : 0u;
          UNROLL for (int k = 0; k < V; ++k) {
            const int bit = (from + i) * V + k;
            bits[bit / 32] |= equal(v[k], y[COLUMNS == 1 ? 0 : k]) & there & 1u << bit % 32;
          }
        }
      }
    }

    __device__ void sum(Total (&sums)[COLUMNS]) const {
      int counts[COLUMNS];
      UNROLL for (int k = 0; k < COLUMNS; ++k) {
        counts[k] = 0;
        const u32 own = COLUMNS == 1 ? 0xffffffffu : 0xffffffffu / ((1u << V % 32) - 1) << k;  // the bits of column k
        UNROLL for (int word = 0; word < WORDS; ++word) counts[k] += __popc(bits[word] & own);
        sums[k] = counts[k];
      }
    }

    template <bool KEPT>
    __device__ void write(const ThreadPacks<T, V, 1>& walk, const Result (&result)[COLUMNS], i64 first) const {
      UNROLL for (int i = 0; i < ITEMS; ++i) {
        if (walk.inside(first + i)) {
          W v[V];
          UNROLL for (int k = 0; k < V; ++k) {
            const int bit = i * V + k;
            const Result& by = result[COLUMNS == 1 ? 0 : k];
            v[k] = bits[bit / 32] >> bit % 32 & 1 ? by.hit : by.miss;
          }
          Pack<T, V> made;
          made.set(v);
          made.template store<KEPT>(walk.out + (first + i) * walk.out_step, walk.out_packed);
        }
      }
    }

    // Save a batch to shared memory, or restore it.
    __device__ static int saved(int batch, int k) { return (batch * WORDS + k) * (int)blockDim.x + threadIdx.x; }
    __device__ void save(Bytes16* memory, int batch) const {
      UNROLL for (int k = 0; k < WORDS; ++k) ((u32*)memory)[saved(batch, k)] = bits[k];
    }
    __device__ void restore(const Bytes16* memory, int batch) {
      UNROLL for (int k = 0; k < WORDS; ++k) bits[k] = ((const u32*)memory)[saved(batch, k)];
    }
  };
};
