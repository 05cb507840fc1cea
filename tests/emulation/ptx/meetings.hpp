// A part of machine.cpp: where threads meet, in a warp, a block and a cluster.

// --- A warp ----------------------------------------------------------------------------------------------------------

static void lane_ended(Thread& t) {
  Warp& warp = *t.warp;
  for (u32 k = 0; k < 32; ++k) {
    if (warp.masks[k] >> t.lane & 1) fail("ended, and lane %u waits for it at #%u", k, warp.lanes[k]->statement);
  }
}

static void shuffle(Warp& warp, Thread& t, u32 what, u32 mask) {
  const u64* own = warp.values[t.lane];
  const int lane = (int)t.lane, by = (int)(own[1] & 31), limit = (int)(own[2] & 31), segment = (int)(own[2] >> 8 & 31);
  const int least = lane & segment, most = least | (limit & ~segment);
  int from = 0;
  bool is_inside = false;
  switch (what) {
    case SHUFFLE_UP: from = lane - by, is_inside = from >= most; break;
    case SHUFFLE_DOWN: from = lane + by, is_inside = from <= most; break;
    case SHUFFLE_XOR: from = lane ^ by, is_inside = from <= most; break;
    default: from = least | (by & ~segment), is_inside = from <= most;
  }
  if (!is_inside) from = lane;
  if (!(mask >> from & 1)) fail("lane %d takes what lane %d has, which is not of the mask 0x%x", lane, from, mask);
  t.received[0] = warp.values[from][0];
  t.agreed = is_inside;
}

static u64 reduced(u64 how, u32 a, u32 b) {
  switch (how) {
    case SUM: return a + b;
    case LEAST_SIGNED: return (u32)lesser((s32)a, (s32)b);
    case LARGEST_SIGNED: return (u32)greater((s32)a, (s32)b);
    case LEAST_UNSIGNED: return lesser(a, b);
    default: return greater(a, b);
  }
}

// Each lane's share of 8 x 8 halves to a matrix, whose rows the lanes' addresses name: of a row, two side by side.
static void matrices(Thread& first, Warp& warp, bool loads) {
  const u32 count = (u32)warp.values[0][0] & 7;
  const bool across = warp.values[0][0] & 8;
  for (u32 m = 0; m < count; ++m) {
    for (u32 lane = 0; lane < 32; ++lane) {
      u32 word = loads ? 0 : (u32)warp.values[lane][1 + m];
      for (u32 k = 0; k < 2; ++k) {
        u32 row = lane / 4, column = 2 * (lane % 4) + k;
        if (across) row = column, column = lane / 4;
        u8* place = in_shared(first, warp.values[8 * m + row][0] >> 8, 16) + 2 * column;
        if (loads) word |= (u32)loaded<u16>(place) << 16 * k;
        else stored<u16>(place, (u16)(word >> 16 * k));
      }
      if (loads) warp.lanes[lane]->received[m] = word;
    }
  }
}

// All lanes of the mask are here: what each of them gets.
static void agree(Thread& me, Warp& warp, u32 what, u32 mask) {
  u64 total = warp.values[me.lane][0];
  for (u32 k = 0; k < 32; ++k) {
    if (what == REDUCE && mask >> k & 1 && k != me.lane) total = reduced(warp.values[k][1], (u32)total, (u32)warp.values[k][0]);
  }
  if (what == LOAD_MATRIX || what == STORE_MATRIX) return matrices(me, warp, what == LOAD_MATRIX);
  for (u32 k = 0; k < 32; ++k) {
    if (!(mask >> k & 1)) continue;
    if (what == REDUCE) warp.lanes[k]->received[0] = total;
    else if (what != SYNC) shuffle(warp, *warp.lanes[k], what, mask);
  }
}

bool meet_lanes(Thread& t, Meeting what, u32 mask, u32 number, u64 a, u64 b, u64 c, u64 d, u64 e) {
  Warp& warp = *t.warp;
  const u32 lanes = t.block->threads - t.number / 32 * 32;
  if (lanes < 32) mask &= (1u << lanes) - 1;  // of the last warp, those that there are
  if (!(mask >> t.lane & 1)) fail("meets lanes of the mask 0x%x, of which it is none", mask);
  const u64 values[5] = {a, b, c, d, e};
  memcpy(warp.values[t.lane], values, sizeof(values));
  warp.numbers[t.lane] = number;
  warp.kinds[t.lane] = what;
  u32 waiting = 0;
  for (u32 k = 0; k < 32; ++k) {
    if (!(mask >> k & 1) || k == t.lane) continue;
    if (warp.lanes[k]->waits == OVER) fail("waits for lane %u, which has ended", k);
    if (warp.masks[k] != mask) continue;  // it is on its way, or meets others before
    if (warp.kinds[k] != what || (what != SYNC && warp.numbers[k] != number)) {
      fail("lane %u of its warp meets it at another instruction, #%u", k, warp.lanes[k]->statement);
    }
    ++waiting;
  }
  if (waiting + 1 < (u32)__builtin_popcount(mask)) {
    warp.masks[t.lane] = mask;
    return wait_for_others(t, LANES);
  }
  agree(t, warp, what, mask);
  for (u32 k = 0; k < 32; ++k) {
    if (!(mask >> k & 1) || k == t.lane) continue;
    warp.masks[k] = 0;
    wake(warp.lanes[k]);
  }
  progress();
  return pause(t);
}

// --- A block ---------------------------------------------------------------------------------------------------------

// Lets those go that wait at a barrier, if all are there.
static void release_threads(Block& block, u32 number) {
  Sync& sync = block.syncs[number];
  if (sync.arrived == 0 || sync.arrived < (sync.threads ? sync.threads : block.threads - block.ended)) return;
  sync = {};
  progress();
  for (u32 k = 0; k < block.threads; ++k) {
    Thread& t = *block.warps[k / 32].lanes[k % 32];
    if (t.waits == THREADS && t.waits_at == number) wake(&t);
  }
}

bool sync_threads(Thread& t, u32 number, u32 threads) {
  if (number > 15) fail("there is no barrier %u", number);
  Sync& sync = t.block->syncs[number];
  if (sync.arrived++ == 0) sync.threads = threads;
  if (sync.threads != threads) fail("barrier %u is for %u threads, and for %u", number, sync.threads, threads);
  wait_for_others(t, THREADS, number);
  release_threads(*t.block, number);
  return true;
}

// --- A cluster -------------------------------------------------------------------------------------------------------

static void release_cluster(Cluster& cluster) {
  if (cluster.arrived == 0 || cluster.arrived < cluster.threads - cluster.ended) return;
  cluster.arrived = 0;
  ++cluster.phase;
  progress();
  for (u32 b = 0; b < cluster.count; ++b) {
    Block& block = cluster.blocks[b];
    for (u32 k = 0; k < block.threads; ++k) {
      Thread& t = *block.warps[k / 32].lanes[k % 32];
      if (t.waits == CLUSTER) wake(&t);
    }
  }
}

void cluster_arrive(Thread& t) {
  if (t.cluster_phase % 2) fail("arrives at the cluster's barrier twice without waiting for it");
  ++t.cluster_phase;
  ++t.block->cluster->arrived;
  release_cluster(*t.block->cluster);
}

bool cluster_wait(Thread& t) {
  if (t.cluster_phase % 2 == 0) fail("waits for the cluster's barrier without having arrived at it");
  const u32 phase = t.cluster_phase / 2;
  ++t.cluster_phase;
  if (t.block->cluster->phase == phase) return wait_for_others(t, CLUSTER);
  return pause(t);
}

u32 mapped(u32 address, u32 rank) {
  if (address >> 24) fail("mapa of what is mapped already");
  return address | (rank + 1) << 24;
}
