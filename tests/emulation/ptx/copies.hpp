// A part of machine.cpp: copies that a thread starts and later waits for, and barriers in shared memory that count them.
//
// A copy by cp.async lands as late as it may: where it is waited for. What is counted by an mbarrier lands at any time. Where it is to land, there is nothing from the start that may be relied on.

static void spoil(u8* place, u32 bytes) { memset(place, 0xff, bytes); }

// --- mbarriers -------------------------------------------------------------------------------------------------------
//
// In the word itself: arrivals that it waits for in 20 bits, of each phase in 20, bytes in 22 with their sign, a mark, and
// the phase's parity in the highest bit.

constexpr u32 MOST = 0xfffff;

struct Barrier {
  u32 pending, expected;
  int bytes;
  bool phase;
};

static Barrier barrier_in(const u8* place, u32 at) {
  const u64 word = loaded<u64>(place);
  if (!(word >> 62 & 1) || word == ~0ull) fail("there is no mbarrier at 0x%x", at & ADDRESS);
  return {(u32)word & MOST, (u32)(word >> 20) & MOST, (int)(word >> 40 & 0x3fffff) - (1 << 21), (bool)(word >> 63)};
}
static u64 packed(const Barrier& b) {
  return b.pending | (u64)b.expected << 20 | (u64)(b.bytes + (1 << 21)) << 40 | 1ull << 62 | (u64)b.phase << 63;
}
static void put_barrier(u8* place, Barrier barrier) {
  if (barrier.bytes > (int)MOST || barrier.bytes < -(int)MOST) fail("an mbarrier counts to 2^20 - 1 bytes");
  if (barrier.pending == 0 && barrier.bytes == 0) {
    barrier.phase = !barrier.phase;
    barrier.pending = barrier.expected;
    progress();
  }
  stored<u64>(place, packed(barrier));
}

void barrier_init(Thread& t, u32 at, u32 arrivals) {
  if (arrivals == 0 || arrivals > MOST) fail("an mbarrier of %u arrivals", arrivals);
  stored<u64>(in_shared(t, at, 8), packed({arrivals, arrivals, 0, false}));
}
u64 barrier_arrive(Thread& t, u32 at, u32 expected_bytes) {
  u8* place = in_shared(t, at, 8);
  Barrier barrier = barrier_in(place, at);
  const u64 before = loaded<u64>(place);
  if (barrier.pending == 0) fail("more arrivals at the mbarrier at 0x%x than it waits for", at & ADDRESS);
  --barrier.pending;
  barrier.bytes += (int)expected_bytes;
  put_barrier(place, barrier);
  return before;
}
bool barrier_passed(Thread& t, u32 at, u32 parity) {
  const Barrier barrier = barrier_in(in_shared(t, at, 8), at);
  return barrier.phase != (bool)(parity & 1);
}

// --- cp.async --------------------------------------------------------------------------------------------------------

static void land(const Copy& copy) {
  memcpy(copy.to, copy.from, copy.taken);
  memset(copy.to + copy.taken, 0, copy.bytes - copy.taken);
}

void copy(Thread& t, u32 to, u64 from, u32 bytes, u32 taken) {
  if (to >> 24) fail("cp.async to another block");
  if (bytes != 4 && bytes != 8 && bytes != 16) fail("cp.async of %u bytes", bytes);
  if (taken > bytes) fail("cp.async takes %u of %u bytes", taken, bytes);
  aligned(from, bytes);
  if (taken) find_span(from, taken, false);
  u8* place = in_shared(t, to, bytes);
  spoil(place, bytes);
  append(t.copies, {place, (const u8*)from, bytes, taken, t.group});
}

void commit_copies(Thread& t) { ++t.group; }

void wait_for_copies(Thread& t, u32 groups_left) {
  u32 kept = 0;
  for (u32 k = 0; k < t.copies.count; ++k) {
    const Copy one = t.copies.items[k];
    if (one.group + groups_left >= t.group) t.copies.items[kept++] = one;
    else land(one);
  }
  t.copies.count = kept;
}

// --- Bulk copies -----------------------------------------------------------------------------------------------------

static void send(Thread& t, u32 to, u32 bytes, u32 barrier, const u8* from, const void* value) {
  Block *block, *counts;
  u8* place = shared_place(t, to, bytes, &block);
  u8* counted = shared_place(t, barrier, 8, &counts);
  if (counts != block) fail("a copy is counted in another block");
  barrier_in(counted, barrier);
  spoil(place, bytes);
  ++block->in_flight;
  Delivery& made = append(state.deliveries, {block, place, bytes, barrier & ADDRESS, from, {0, 0}});
  if (value) memcpy(made.value, value, bytes);
}

void copy_bulk(Thread& t, u32 to, u64 from, u32 bytes, u32 barrier) {
  if (bytes % 16 || to % 16 || from % 16) fail("a bulk copy of %u bytes that is not in whole words of 16", bytes);
  if (bytes == 0) return;
  find_span(from, bytes, false);
  send(t, to, bytes, barrier, (const u8*)from, nullptr);
}
void store_async(Thread& t, u32 to, const void* value, u32 bytes, u32 barrier) {
  send(t, to, bytes, barrier, nullptr, value);
}

static void deliver(const Delivery& delivery) {
  Block& block = *delivery.block;
  memcpy(delivery.to, delivery.from ? delivery.from : (const u8*)delivery.value, delivery.bytes);
  progress();
  --block.in_flight;
  u8* place = block.shared + (delivery.barrier - SHARED_BEGINS);
  Barrier barrier = barrier_in(place, delivery.barrier);
  barrier.bytes -= (int)delivery.bytes;
  put_barrier(place, barrier);
}

// Whether there was one that could land.
static bool something_lands() {
  if (state.deliveries.count == 0) return false;
  deliver(take(state.deliveries, (u32)random_below(state.deliveries.count)));
  return true;
}
