// Few rows, each shared by many blocks that keep a ring of tiles in shared memory. Needs compute capability 9.0.
//
// `parts` blocks of a co-operative launch process one row at a time. One warp of a block prefetches tiles while the
// ring has room. The other warps add each tile to a running pair. They merge it with the other blocks' pairs, and write
// from the tiles. If a part is longer than the ring, overwritten tiles are read again, most likely from L2.
#include "../hopper.cuh"
#include "online_update.cuh"

// A word has 32 bits of a value, and the tag of its launch. A reader that sees the tag has the value, too, without a
// fence or a counter. Tags count launches: a block's new tag is its last one plus 1.
__device__ inline u32 receive_tagged(const u64* at, u32 tag) {
  u64 word;
  do word = peek_word(at);
  while ((u32)(word >> 32) != tag);
  return (u32)word;
}

// The next tile's index in the ring, and the parity of the completed rounds.
struct RingPlace {
  int slot = 0;
  u32 parity = 0;

  __device__ void next(int slots) {
    if (++slot == slots) slot = 0, parity ^= 1;
  }
};

// The part of a row that one of `parts` blocks has: packs [from, from + count), in `tiles` tiles of TILE packs.
template <int TILE>
struct Part {
  i64 from;
  int count, tiles;

  __device__ Part(i64 packs, int parts, int part) {
    const i64 share = ((packs + parts - 1) / parts + 7) / 8 * 8;  // a multiple of 128 bytes, a cache line
    from = part * share;
    const i64 left = packs - from;
    count = (int)(left < 0 ? 0 : left < share ? left : share);
    tiles = (count + TILE - 1) / TILE;
  }
};

template <class T, int LANES>
__global__ void __launch_bounds__(LANES + 32, 1)
    split_ring(const Problem given, u64* packets, const int parts, const int ring_tiles) {
  using W = Wide<T>;
  constexpr int V = 16 / sizeof(T), WARPS = LANES / 32, ITEMS = 2, TILE = ITEMS * LANES, MOST = 16;
  constexpr int WORDS = sizeof(Pair<W>) / 4;
  extern __shared__ Bytes16 ring[];
  __shared__ u64 full[MOST], empty[MOST];
  __shared__ alignas(16) Pair<W> slots[2][256], warp_slots[2][WARPS];
  const int warp = threadIdx.x / 32, lane = threadIdx.x & 31;
  if (threadIdx.x == 0) {
    for (int k = 0; k < ring_tiles; ++k) init_barrier(&full[k], 1), init_barrier(&empty[k], WARPS);
    fence_barriers();
  }
  const Problem p = wait_for_previous_launch(given);
  __syncthreads();
  const int part = blockIdx.x % parts, group = blockIdx.x / parts, groups = gridDim.x / parts;
  RingPlace at;

  if (warp == WARPS) {  // the warp that copies
    if (lane != 0) return;
    const L2Policies l2;
    at.parity = 1;  // at first, every tile of the ring is free
    for (i64 r = group; r < p.rows; r += groups) {
      const Row<T, V> row(p, r);
      const Part<TILE> mine(row.packs, parts, part);
      const int over = mine.tiles > ring_tiles ? mine.tiles - ring_tiles : 0;
      const Bytes16* x = (const Bytes16*)(row.x + row.head + mine.from * V);
      for (int k = 0; k < mine.tiles + over; ++k) {
        const int tile = k < mine.tiles ? k : k - mine.tiles, left = mine.count - tile * TILE;
        const u32 bytes = (left < TILE ? left : TILE) * 16;
        wait_for(&empty[at.slot], at.parity);
        arrive_expecting(&full[at.slot], bytes);
        copy_bulk(ring + at.slot * TILE, x + (i64)tile * TILE, bytes, &full[at.slot], k < over ? l2.keep : l2.stream);
        at.next(ring_tiles);
      }
    }
    return;
  }

  const auto sync = [&] { asm volatile("bar.sync 1, %0;" :: "n"(LANES) : "memory"); };  // for warps that compute
  const auto take_tile = [&](Pack<T, V>(&items)[ITEMS], int slot, int left) {
    const Bytes16* tile = ring + slot * TILE + threadIdx.x;
    UNROLL for (int i = 0; i < ITEMS; ++i) {
      if (i * LANES + (int)threadIdx.x < left) items[i].raw = tile[i * LANES];
      else items[i].empty();
    }
  };
  const auto release = [&](int slot) {
    __syncwarp();
    if (lane == 0) arrive(&empty[slot]);
  };

  u32 turn = 0;
  for (i64 r = group; r < p.rows; r += groups, turn ^= 1) {
    const Row<T, V> row(p, r);
    const Part<TILE> mine(row.packs, parts, part);
    const int over = mine.tiles > ring_tiles ? mine.tiles - ring_tiles : 0;
    u64* row_packets = packets + r * parts * WORDS;
    const u32 tag = (u32)(peek_word(row_packets + part * WORDS) >> 32) + 1;

    RunningPair<W> run;
    Pack<T, V> items[ITEMS];
    W edge = minus_infinity<W>();
    if (part == 0) online_update_edge(run, row, edge);
    for (int k = 0; k < mine.tiles; ++k) {
      wait_for(&full[at.slot], at.parity);
      take_tile(items, at.slot, mine.count - k * TILE);
      if (k < over) release(at.slot);
      online_update(run, items);
      at.next(ring_tiles);
    }

    const Pair<W> own = warp_merge<32>(run.all());
    if (lane == 0) warp_slots[turn][warp] = own;
    sync();
    const Pair<W> block = merge_slots(warp_slots[turn], WARPS);
    if ((int)threadIdx.x < WORDS) {
      const u32* words = (const u32*)&block;
      u32 word = words[0];
      UNROLL for (int k = 1; k < WORDS; ++k) word = threadIdx.x == k ? words[k] : word;
      send_word(row_packets + part * WORDS + threadIdx.x, (u64)tag << 32 | word);
    }
    for (int k = threadIdx.x; k < parts * WORDS; k += LANES) {
      ((u32*)slots[turn])[k] = receive_tagged(row_packets + k, tag);
    }
    sync();
    const Pair<W> all = merge_slots(slots[turn], parts);

    const Pair<W> by = normalizer<T>(all);
    const auto write_tile = [&](int tile) {
      const i64 from = mine.from + (i64)tile * TILE + threadIdx.x;
      const int left = mine.count - tile * TILE;
      UNROLL for (int i = 0; i < ITEMS; ++i) {
        if (i * LANES + (int)threadIdx.x < left) write_pack(row, from + i * LANES, items[i], by);
      }
    };
    int slot = at.slot - (mine.tiles - over);
    if (slot < 0) slot += ring_tiles;
    for (int k = over; k < mine.tiles; ++k) {
      take_tile(items, slot, mine.count - k * TILE);
      release(slot);
      write_tile(k);
      if (++slot == ring_tiles) slot = 0;
    }
    for (int k = 0; k < over; ++k) {
      wait_for(&full[at.slot], at.parity);
      take_tile(items, at.slot, mine.count - k * TILE);
      release(at.slot);
      write_tile(k);
      at.next(ring_tiles);
    }
    if (part == 0) write_edge(row, edge, by);
  }
}
