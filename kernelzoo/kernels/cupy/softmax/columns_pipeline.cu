// Columns by a pipeline: reading one strip, exchanging another's pairs and writing a third go on at once. Of compute
// capability 9.0.
//
// `parts` blocks of a co-operative launch take a strip, 128 bytes of neighbouring rows, and as many strips at a time as
// there are blocks for. Each warp has a piece of every strip that its block takes, and tiles of shared memory of its own,
// four elements of each row, which it keeps filled by copies of its own lanes. It takes a running pair of each tile that
// arrives, and writes from the same tiles once the rows' pairs are known; until then it goes on with the strips that
// follow. So reading one strip, the exchange of pairs for another and writing a third go on at once, and no warp waits for
// another of its block. More warps serve the exchange: one merges and sends the block's pairs, the others receive those of
// the other blocks, as tagged words in device memory.

#include "ring.cuh"
#include "running.cuh"

template <class T, int WARPS, int ITEMS>
__global__ void __launch_bounds__(WARPS * 32 + 32 + 128 / sizeof(T), 1)
    columns_pipeline(const Problem given, u64* packets, const int parts, const int share, const int slots) {
  using W = Wide<T>;
  constexpr int V = 16 / sizeof(T), WIDE = 8 * V, WORDS = sizeof(Pair<W>) / 4, TILE = ITEMS * 4;
  constexpr int MOST = 448 / (WARPS * ITEMS);
  constexpr int FLIGHT = 3;        // tiles of a warp on their way: behind more of them the packets would wait in line
  constexpr int DEPTH = 3;         // strips taken in and not yet written
  constexpr int USES = 2 * DEPTH;  // places for packets: before one is written again, all blocks have read it
  constexpr int RECEIVERS = WIDE / 32, AT_ONCE = 12;  // warps; parts that a lane asks for at once
  extern __shared__ Bytes16 memory[];
  __shared__ u64 full[WARPS][MOST], taken[DEPTH], known[DEPTH];
  __shared__ alignas(16) Pair<W> own_pairs[DEPTH][WARPS][WIDE], finishers[DEPTH][WIDE];
  const int warp = threadIdx.x / 32, lane = threadIdx.x & 31;
  if (threadIdx.x < DEPTH) {
    init_barrier(&taken[threadIdx.x], WARPS);
    init_barrier(&known[threadIdx.x], parts > 1 ? RECEIVERS : 1);
  }
  if (warp < WARPS && lane < slots) init_barrier(&full[warp][lane], 32);
  fence_barriers();
  const Problem p = begin(given);
  __syncthreads();
  const int part = blockIdx.x % parts, group = blockIdx.x / parts, groups = gridDim.x / parts;
  const int strips = (int)((p.inner + WIDE - 1) / WIDE);
  const i64 all_strips = p.rows / p.inner * strips;

  if (warp >= WARPS) {
    const bool sends = warp == WARPS;
    if (!sends && parts == 1) return;
    u32 first_tag = 0;
    if (parts > 1) {
      packets += (i64)group * USES * parts * WIDE * WORDS;
      first_tag = (u32)(peek_tagged(packets + part * WIDE * WORDS) >> 32) + 1;
      asm volatile("bar.sync 1, %0;" :: "n"(32 + RECEIVERS * 32) : "memory");
    }
    int turn = 0;
    for (i64 g = group; g < all_strips; g += groups, ++turn) {
      const int at = turn % DEPTH;
      u64* strip_packets = packets + turn % USES * parts * WIDE * WORDS;
      const u32 tag = first_tag + turn / USES;
      wait_for(&taken[at], turn / DEPTH & 1);
      if (sends) {
        for (int column = lane; column < WIDE; column += 32) {
          Pair<W> all = {lowest<W>(), 0};
#pragma unroll
          for (int k = 0; k < WARPS; ++k) all.m = larger(all.m, own_pairs[at][k][column].m);
          const W shift = zero_if_empty(all.m);
#pragma unroll
          for (int k = 0; k < WARPS; ++k) {
            const Pair<W> one = own_pairs[at][k][column];
            all.s += one.s * exponential(one.m - shift);
          }
          if (parts == 1) {
            finishers[at][column] = finisher<T>(all);
          } else {
            const u32* words = (const u32*)&all;
#pragma unroll
            for (int k = 0; k < WORDS; ++k) {
              send_tagged(strip_packets + (part * WORDS + k) * WIDE + column, tag, words[k]);
            }
          }
        }
        __syncwarp();
        if (lane == 0 && parts == 1) arrive(&known[at]);
        continue;
      }
      const int column = (warp - WARPS - 1) * 32 + lane;
      if (column < WIDE) {
        Pair<W> all = {lowest<W>(), 0};
        for (int first = 0; first < parts; first += AT_ONCE) {
          u64 got[AT_ONCE][WORDS];
          bool any = true;
          while (any) {
#pragma unroll
            for (int i = 0; i < AT_ONCE; ++i) {
#pragma unroll
              for (int k = 0; k < WORDS; ++k) {
                const u64* word = strip_packets + ((first + i) * WORDS + k) * WIDE + column;
                if (first + i < parts) got[i][k] = peek_tagged(word);
              }
            }
            any = false;
#pragma unroll
            for (int i = 0; i < AT_ONCE; ++i) {
#pragma unroll
              for (int k = 0; k < WORDS; ++k) any |= first + i < parts && (u32)(got[i][k] >> 32) != tag;
            }
          }
          Pair<W> theirs[AT_ONCE], here = {lowest<W>(), 0};
#pragma unroll
          for (int i = 0; i < AT_ONCE; ++i) {
            theirs[i] = {lowest<W>(), 0};
            u32* words = (u32*)&theirs[i];
#pragma unroll
            for (int k = 0; k < WORDS; ++k) {
              if (first + i < parts) words[k] = (u32)got[i][k];
            }
            here.m = larger(here.m, theirs[i].m);
          }
          const W shift = zero_if_empty(here.m);
#pragma unroll
          for (int i = 0; i < AT_ONCE; ++i) here.s += theirs[i].s * exponential(theirs[i].m - shift);
          all = merge(all, here);
        }
        finishers[at][column] = finisher<T>(all);
      }
      __syncwarp();
      if (lane == 0) arrive(&known[at]);
    }
    return;
  }

  const int x_lane = lane % 8, depth = lane / 8, piece = part * WARPS + warp;
  Bytes16* ring = memory + warp * slots * (ITEMS * 32) + lane;
  u64* arrived = full[warp];
  const i64 from = (i64)piece * share, left = p.n - from;
  const int count = left < 0 ? 0 : left < share ? (int)left : share, tiles = (count + TILE - 1) / TILE;

  u32 room = (1u << slots) - 1;
  RingPlace load_at, take_at, write_at;
  i64 loading = group, taking = group, writing = group;
  int load_tile = 0, take_tile = 0, write_tile = 0, take_turn = 0, write_turn = 0, in_flight = 0;
  W m[V], s[V], v[V];
#pragma unroll
  for (int k = 0; k < V; ++k) m[k] = lowest<W>(), s[k] = 0;
  bool may_write = false;
  Pack<T, V> items[ITEMS];
  // Where this lane's first element of strip g lies; whether it has one.
  const T* x = nullptr;
  T* out = nullptr;
  bool reads = false, writes = false;
  const auto strip = [&](i64 g, i64& outer, i64& inner) {
    outer = g / strips;
    inner = (g - outer * strips) * WIDE + x_lane * V;
    return inner < p.inner;
  };
  const auto load_strip = [&] {
    i64 outer, inner;
    reads = strip(loading, outer, inner);
    x = (const T*)p.x + outer * p.x_outer + inner + (from + depth) * p.x_n;
  };
  const auto write_strip = [&] {
    i64 outer, inner;
    writes = strip(writing, outer, inner);
    out = (T*)p.out + outer * p.out_outer + inner + (from + depth) * p.out_n;
  };
  const auto get_tile = [&](int slot, int here) {
    const Bytes16* tile = ring + slot * (ITEMS * 32);
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      if (i * 4 + depth < here) {
        items[i].raw = tile[i * 32];
      } else {
        items[i].empty();
      }
    }
  };
  load_strip();
  write_strip();

  while (writing < all_strips) {
    while (loading < all_strips && (room >> load_at.slot & 1) && in_flight < FLIGHT) {
      if (load_tile < tiles) {
        const int here = count - load_tile * TILE;
        room ^= 1u << load_at.slot;
        ++in_flight;
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
          if (reads && i * 4 + depth < here) {
            copy_async(ring + (load_at.slot * ITEMS + i) * 32, x + (i64)(load_tile * TILE + i * 4) * p.x_n);
          }
        }
        asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];"
                     :: "r"(shared_address(&arrived[load_at.slot])) : "memory");
        load_at.next(slots);
        ++load_tile;
      } else {
        loading += groups;
        load_tile = 0;
        if (loading < all_strips) load_strip();
      }
    }

    if (taking < all_strips && take_turn - write_turn < DEPTH) {
      if (take_tile < tiles && passed(&arrived[take_at.slot], take_at.parity)) {
        get_tile(take_at.slot, count - take_tile * TILE);
        take_in_columns(m, s, items);
        take_at.next(slots);
        ++take_tile;
        --in_flight;
      }
      if (take_tile == tiles) {
        const int at = take_turn % DEPTH;
#pragma unroll
        for (int k = 0; k < V; ++k) {
          const W own = m[k];
#pragma unroll
          for (int mask = 16; mask >= 8; mask /= 2) m[k] = larger(m[k], exchange(m[k], mask));
          s[k] *= exponential(own - zero_if_empty(m[k]));
#pragma unroll
          for (int mask = 16; mask >= 8; mask /= 2) s[k] += exchange(s[k], mask);
          if (depth == 0) own_pairs[at][warp][x_lane * V + k] = {m[k], s[k]};
          m[k] = lowest<W>();
          s[k] = 0;
        }
        __syncwarp();
        if (lane == 0) arrive(&taken[at]);
        taking += groups;
        ++take_turn;
        take_tile = 0;
      }
    }

    if (!may_write && write_turn < take_turn) may_write = passed(&known[write_turn % DEPTH], write_turn / DEPTH & 1);
    if (may_write) {
      if (write_tile < tiles) {
        const int here = count - write_tile * TILE;
        get_tile(write_at.slot, here);
        const Pair<W>* by = &finishers[write_turn % DEPTH][x_lane * V];
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
          items[i].get(v);
#pragma unroll
          for (int k = 0; k < V; ++k) v[k] = finished<T>(v[k], by[k]);
          items[i].set(v);
#pragma unroll
          for (int k = 0; k < 4; ++k) asm volatile("" : "+r"(items[i].raw.word[k]));  // not sunk into the branch below
        }
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
          if (writes && i * 4 + depth < here) store_once(out + (i64)(write_tile * TILE + i * 4) * p.out_n, items[i].raw);
        }
        room |= 1u << write_at.slot;
        write_at.next(slots);
        ++write_tile;
      }
      if (write_tile == tiles) {
        __syncwarp();  // all lanes have read their finishers
        writing += groups;
        ++write_turn;
        write_tile = 0;
        may_write = false;
        if (writing < all_strips) write_strip();
      }
    }
  }
}
