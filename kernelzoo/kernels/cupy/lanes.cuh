// Rows of tensors of any strides, with several lanes per row and several rows per block. A lane reads 16 bytes at once
// of a contiguous row, and else one element.
#pragma once
#include "vector_io.cuh"

constexpr int THREADS = 512;  // per block, at most
constexpr int BATCH = 4;      // loads in flight per thread

// Integers are added up in 64 bits.
__device__ inline i64 widen(int v) { return v; }  // of 8, 16 or 32 bits
__device__ inline i64 widen(i64 v) { return v; }
__device__ inline void narrow(i64 v, i64& to) { to = v; }

// A thread's row, and its number among the row's lanes. The lanes, a power of two, read the row's vectors in turn.
// `across`: adjacent threads belong to adjacent rows, not to one row. Rows past the last one have no elements.
struct Lane {
  i64 r, outer, inner;  // the row's number and coordinates
  i64 from = 0, n;      // the row's lanes read its elements [from, n)
  int first, step;      // this lane's number among the row's lanes, and their count
  int row, rows;        // the row's number among the block's rows, and their count
  int apart, between;   // threads from a lane to the next of its row, and from a row to the next
  bool live, leads;     // whether the row exists, and whether this is also its first lane

  template <class P>
  __device__ Lane(const P& p, int lanes, bool across, i64 block = block_index()) {
    const int lane_bits = __popc(lanes - 1), row_bits = __popc(blockDim.x - 1) - lane_bits;
    const int apart_bits = across ? row_bits : 0, between_bits = across ? 0 : lane_bits;
    step = lanes, rows = 1 << row_bits, apart = 1 << apart_bits, between = 1 << between_bits;
    first = threadIdx.x >> apart_bits & (step - 1), row = threadIdx.x >> between_bits & (rows - 1);
    r = block * rows + row;
    live = r < p.rows, leads = live && first == 0, n = live ? p.n : 0;
    row_coords(p, live ? r : 0, outer, inner);
  }
};

// V adjacent elements of a row.
template <class T, int V>
struct Vector {
  Bytes16 raw;
  static constexpr int COUNT = V;
  __device__ T operator[](int i) const { return element<T>(raw, i); }
  __device__ void set(const Wide<T> (&v)[V]) {
    Pack<T, V> pack;
    pack.set(v), raw = pack.raw;
  }
};
template <class T>
struct Vector<T, 1> {
  T value;
  static constexpr int COUNT = 1;
  __device__ T operator[](int) const { return value; }
  __device__ void set(const Wide<T> (&v)[1]) { narrow(v[0], value); }
};

// The sum of term(i) for i < COUNT, or of term(element) over the elements of a vector. Terms are added pairwise.
template <int COUNT, class Term>
__device__ inline auto sum_of_terms(Term term) {
  decltype(term(0)) terms[COUNT];
  UNROLL for (int i = 0; i < COUNT; ++i) terms[i] = term(i);
  return sum_of(terms);
}
template <class T, int V, class Term>
__device__ inline auto sum_of_terms(const Vector<T, V>& v, Term term) {
  return sum_of_terms<V>([&](int i) { return term(v[i]); });
}

// A row of a tensor. `line<T, K>` returns the one of tensor K, counted from the first input to the last output.
template <class T, int V = 1>
struct Line {
  T* at;
  i64 step;
  __device__ T& operator[](i64 k) const { return at[k * step]; }
  // Load elements k to k + V - 1 at once, if wanted.
  __device__ Vector<T, V> load_if(bool wanted, i64 k) const {
    Vector<T, V> v{};
    if constexpr (V > 1) v.raw = ::load_if(wanted, at + k, v.raw);
    else if (wanted) v.value = at[k * step];
    return v;
  }
  template <class Value>
  __device__ void store(i64 k, Value value) const {
    decltype(value(0)) v[V];
    UNROLL for (int i = 0; i < V; ++i) v[i] = value(i);
    if constexpr (V * sizeof(T) == 16) {
      Pack<T, V> pack;
      pack.set(v), store_plain(at + k, pack.raw);
    } else {
      UNROLL for (int i = 0; i < V; ++i) narrow(v[i], at[(k + i) * step]);
    }
  }
};
template <class T, int K, int V = 1, class P>
__device__ inline Line<T, V> line(const P& p, i64 outer, i64 inner) {
  const void* at = K == 0 ? p.x : p.out;
  Strides by = K == 0 ? Strides{p.x_outer, p.x_n, p.x_inner} : Strides{p.out_outer, p.out_n, p.out_inner};
  if constexpr (K > 0 && K <= P::OTHERS) at = p.other[K - 1], by = p.strides[K - 1];
  return {(T*)at + outer * by.outer + inner * by.inner, by.n};
}
template <class T, int K, int V = 1, class P>
__device__ inline Line<T, V> line(const P& p, const Lane& lane) { return line<T, K, V>(p, lane.outer, lane.inner); }

// Call body(elements, index of the first) for each vector of V elements of a row, on 16-byte boundaries. Also call it
// for each single element before the first boundary and after the last vector.
template <class T, int V, class Body>
__device__ inline void for_each_vector(const Line<T, V>& x, const Lane& lane, Body body) {
  i64 head = lane.from, tail = lane.n;
  if constexpr (V > 1) {
    const i64 aligned = head + (-(i64)(x.at + head) & 15) / (i64)sizeof(T);
    head = aligned < tail ? aligned : tail;
    tail = head + (tail - head & -V);
    const int before = (int)(head - lane.from), edges = before + (int)(lane.n - tail);
#pragma unroll 1
    for (int e = lane.first; e < edges; e += lane.step) {
      const i64 k = e < before ? lane.from + e : tail + (e - before);
      body(Vector<T, 1>{x.at[k]}, k);
    }
  }
  const i64 next = lane.step * V;
#pragma unroll 1
  for (i64 k = head + lane.first * V; k < tail; k += BATCH * next) {
    Vector<T, V> v[BATCH];
    UNROLL for (int i = 0; i < BATCH; ++i) v[i] = x.load_if(k + i * next < tail, k + i * next);
    UNROLL for (int i = 0; i < BATCH; ++i) if (k + i * next < tail) body(v[i], k + i * next);
  }
}

// A row that is read several times. If ITEMS > 0, it stays in registers, with ITEMS vectors per lane.
template <class T, int V, int ITEMS>
struct MultiPassRow {
  Line<T, V> x;
  const Lane& lane;
  Vector<T, V> items[ITEMS + !ITEMS];

  __device__ MultiPassRow(Line<T, V> x, const Lane& lane) : x(x), lane(lane) {
    if constexpr (ITEMS > 0) UNROLL for (int i = 0; i < ITEMS; ++i) items[i] = x.load_if(at(i) < (int)lane.n, at(i));
  }
  __device__ int at(int i) const { return (lane.first + i * lane.step) * V; }

  // Call body(elements, index of the first, the others' elements there) for each vector. If the row is in registers,
  // body may change it.
  template <class Body, class... Others>
  __device__ void each(Body body, Others&&... others) {
    if constexpr (ITEMS > 0) {
      UNROLL for (int i = 0; i < ITEMS; ++i) if (at(i) < (int)lane.n) body(items[i], at(i), others.items[i]...);
    } else {
      const i64 next = lane.step * V;
#pragma unroll 1
      for (i64 k = lane.first * V; k < lane.n; k += BATCH * next) {
        Vector<T, V> v[BATCH];
        UNROLL for (int i = 0; i < BATCH; ++i) v[i] = x.load_if(k + i * next < lane.n, k + i * next);
        UNROLL for (int i = 0; i < BATCH; ++i) {
          if (k + i * next < lane.n) body(v[i], k + i * next, others.x.load_if(true, k + i * next)...);
        }
      }
    }
  }
};

// Merge a value from each of `count` threads, `apart` threads apart; both are powers of two. `index` is this thread's
// number among them. All threads of the block must call this. `shared` has an element per thread. All get the same
// bits.
template <class V, class Merge>
__device__ inline V merge_threads(V own, V* shared, int index, int count, int apart, Merge merge) {
  const int reach = count * apart;
  if (apart == 1 && count >= 32) {
    UNROLL for (int mask = 16; mask > 0; mask /= 2) own = merge(own, shuffle_xor(own, mask));
    const int warp = threadIdx.x / 32, warps = count / 32;
    if (warps == 1) return own;
    __syncthreads();  // all threads have read the last result
    if (threadIdx.x % 32 == 0) shared[warp] = own;
    __syncthreads();
    own = shared[(warp & -warps) + (threadIdx.x & (warps - 1))];
    for (int mask = warps / 2; mask > 0; mask /= 2) own = merge(own, shuffle_xor(own, mask));
    return own;
  }
  for (int mask = apart; mask < 32 && mask < reach; mask *= 2) own = merge(own, shuffle_xor(own, mask));
  const int stride = apart > 32 ? apart : 32;
  if (reach <= stride) return own;
  __syncthreads();
  shared[threadIdx.x] = own;
  __syncthreads();
  const V* others = shared + threadIdx.x - index * apart / stride * stride;
  own = others[0];
#pragma unroll 1
  for (int k = stride; k < reach; k += stride) own = merge(own, others[k]);
  return own;
}

// Merge a value from each lane of a row.
template <class V, class Merge>
__device__ inline V merge_lanes(V own, V* shared, const Lane& lane, Merge merge) {
  return merge_threads(own, shared, lane.first, lane.step, lane.apart, merge);
}
struct Plus { template <class V> __device__ V operator()(V a, V b) const { return a + b; } };
// Several sums that are merged together.
template <class W, int COUNT>
struct Sums {
  W of[COUNT];
  __device__ Sums operator+(Sums other) const {
    UNROLL for (int k = 0; k < COUNT; ++k) other.of[k] = of[k] + other.of[k];
    return other;
  }
};
template <class W, int COUNT>
__device__ inline Sums<W, COUNT> shuffle_xor(Sums<W, COUNT> v, int mask) {
  UNROLL for (int k = 0; k < COUNT; ++k) v.of[k] = shuffle_xor(v.of[k], mask);
  return v;
}
template <class V>
__device__ inline V sum_over_lanes(V own, V* shared, const Lane& lane) {
  return merge_lanes(own, shared, lane, Plus{});
}

// a / n and 1 / sqrt(v). In float they are approximate.
__device__ inline float quotient(float a, i64 n) { return __fdividef(a, (float)n); }
__device__ inline double quotient(double a, i64 n) { return a / n; }
__device__ inline float inverse_root(float v) { return rsqrtf(v); }
__device__ inline double inverse_root(double v) { return 1 / sqrt(v); }
