// Runs the threads of a block as fibers, from barrier to barrier.
#include "tests/fakes/cuda/block_runner.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace comera::fake_cuda {
namespace {

std::string At(const CallSite& site) {
  return std::string(site.what) + " of " + site.function + " (" + site.file +
         ":" + std::to_string(site.line) + ")";
}

bool Same(const char* a, const char* b) {
  return a == b || std::strcmp(a, b) == 0;
}
bool Same(const CallSite& a, const CallSite& b) {
  return a.line == b.line && Same(a.what, b.what) && Same(a.file, b.file);
}

}  // namespace

BlockRunner& BlockRunner::OfThisThread() {
  static thread_local BlockRunner runner;
  return runner;
}

void BlockRunner::FreeMemory::operator()(void* memory) const {
  std::free(memory);
}

void BlockRunner::SetOrder(FiberOrder order, uint64_t seed) {
  order_ = order;
  random_ = seed;
}

uint64_t BlockRunner::Random() {  // splitmix64
  uint64_t z = random_ += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

void BlockRunner::Order(std::vector<int>& items) {
  const int n = static_cast<int>(items.size());
  for (int i = 0; i < n; ++i) {
    items[i] = order_ == FiberOrder::kReverse ? n - 1 - i : i;
  }
  if (order_ != FiberOrder::kShuffled) return;
  for (int i = n - 1; i > 0; --i) {
    std::swap(items[i], items[Random() % (i + 1)]);
  }
}

bool BlockRunner::Run(const GridShape& shape,
                      const std::function<void()>& thread) {
  shape_ = shape;
  thread_ = &thread;
  trapped_ = false;
  block_threads_ = shape.block.x * shape.block.y * shape.block.z;
  threads_.assign(block_threads_, {});
  copies_.resize(block_threads_);
  indices_.resize(block_threads_);
  for (int t = 0; t < block_threads_; ++t) {
    const unsigned row = t / shape.block.x;
    indices_[t] = {t % shape.block.x, row % shape.block.y, row / shape.block.y};
  }
  warps_.resize((block_threads_ + 31) / 32);
  gatherings_.assign(warps_.size(), {});
  lanes_.resize(32);
  gridDim = shape.grid;
  blockDim = shape.block;
  // All blocks of the grid: those of the last y or z need not come last.
  std::vector<int> blocks(size_t{shape.grid.x} * shape.grid.y * shape.grid.z);
  Order(blocks);
  for (const int block : blocks) {
    const unsigned at = static_cast<unsigned>(block);
    const unsigned row = at / shape.grid.x;
    blockIdx = {at % shape.grid.x, row % shape.grid.y, row / shape.grid.y};
    RunBlock();
    if (trapped_) return false;
  }
  return true;
}

void BlockRunner::RunBlock() {
  for (Thread& t : threads_) {
    t.state = State::kNew;
    t.waited = false;
  }
  if (copies_used_) {
    for (CopyGroups& c : copies_) c = {};
    copies_used_ = false;
  }
  dynamic_shared_.reset();
  if (shape_.shared_bytes > 0) {
    void* memory = nullptr;
    if (posix_memalign(&memory, 1024, shape_.shared_bytes) != 0) std::abort();
    const uint32_t nan = 0x7fa0dead;
    for (size_t i = 0; i < shape_.shared_bytes; i += 4) {
      std::memcpy(static_cast<char*>(memory) + i, &nan,
                  std::min<size_t>(4, shape_.shared_bytes - i));
    }
    dynamic_shared_.reset(memory);
  }
  for (;;) {
    Order(warps_);
    for (const int warp : warps_) {
      RunWarp(warp);
      if (trapped_) {
        // What the abandoned threads left on their stacks is not used again.
        idle_.clear();
        fibers_.clear();
        return;
      }
      CheckWarp(warp);
    }
    if (threads_[0].state == State::kEnded) {
      for (const Thread& t : threads_) {
        if (t.state != State::kEnded) Fail("not all threads reach a barrier");
      }
      return;
    }
    ReleaseBarrier();
  }
}

void BlockRunner::RunWarp(int warp) {
  sweep_first_ = 32 * warp;
  for (bool ran = true; ran;) {
    ran = false;
    Order(lanes_);
    sweep_at_ = 0;
    while (Advance()) {
      ran = true;
      Thread& t = threads_[current_];
      Fiber* fiber = t.fiber;
      if (t.state == State::kNew) {
        if (idle_.empty()) {
          fibers_.push_back(
              std::make_unique<Fiber>(&switch_, [this] { FiberBody(); }));
          idle_.push_back(fibers_.back().get());
        }
        fiber = idle_.back();
        idle_.pop_back();
        t.fiber = fiber;
      }
      threadIdx = indices_[current_];
      switch_.Enter(fiber);
      if (trapped_) return;
    }
  }
}

bool BlockRunner::Advance() {
  while (sweep_at_ < 32) {
    const int thread = sweep_first_ + lanes_[sweep_at_];
    if (thread < block_threads_ && (threads_[thread].state == State::kNew ||
                                    threads_[thread].state == State::kReady)) {
      current_ = thread;
      ++sweep_at_;
      return true;
    }
    ++sweep_at_;
  }
  return false;
}

void BlockRunner::FiberBody() {
  for (;;) {
    Fiber* const fiber = threads_[current_].fiber;
    for (;;) {
      (*thread_)();
      CheckWaited("ends");
      threads_[current_].state = State::kEnded;
      if (!Advance()) break;
      if (threads_[current_].state != State::kNew) {
        --sweep_at_;  // it has a fiber of its own
        break;
      }
      threads_[current_].fiber = fiber;
      threadIdx = indices_[current_];
    }
    idle_.push_back(fiber);
    switch_.Leave();
  }
}

void BlockRunner::Wait() {
  const int self = current_;
  switch_.Leave();
  current_ = self;
  threadIdx = indices_[self];
}

BarrierVotes BlockRunner::SyncBlock(const CallSite& site, bool vote) {
  CheckWaited("comes to a barrier");
  Thread& t = threads_[current_];
  t.state = State::kAtBarrier;
  t.site = site;
  t.vote = vote;
  Wait();
  return votes_;
}

void BlockRunner::ReleaseBarrier() {
  for (const Thread& t : threads_) {
    if (t.state != State::kAtBarrier || !Same(t.site, threads_[0].site)) {
      Fail("not all threads reach the same barrier");
    }
  }
  votes_ = {block_threads_, 0};
  for (Thread& t : threads_) {
    votes_.yes += t.vote ? 1 : 0;
    t.state = State::kReady;
  }
}

void BlockRunner::WarpCollective(const CallSite& site, uint32_t mask,
                                 void* request, Resolve resolve) {
  CheckWaited("comes to a warp collective");
  const int first = current_ & ~31, lane = current_ & 31;
  Thread& self = threads_[current_];
  self.state = State::kInCollective;
  self.site = site;
  if ((mask >> lane & 1) == 0) {
    Fail("a lane calls a warp collective whose mask lacks it");
  }
  Gathering& warp = gatherings_[first / 32];
  if (warp.missing == 0) {  // the first lane of a new one
    if (32 - __builtin_clz(mask) > block_threads_ - first) {
      Fail("the mask of a warp collective names lanes that the block lacks");
    }
    warp.mask = warp.missing = mask;
    warp.site = site;
  } else if (warp.mask != mask || !Same(warp.site, site)) {
    Fail("lanes of a warp are in different collectives");
  }
  warp.missing &= ~(1u << lane);
  warp.requests[lane] = request;
  if (warp.missing != 0) {
    Wait();
    return;
  }
  void* lanes[32];
  for (int l = 0; l < 32; ++l) {
    const bool in = (mask >> l & 1) != 0;
    lanes[l] = in ? warp.requests[l] : nullptr;
    if (in) threads_[first + l].state = State::kReady;
  }
  resolve(lanes);
}

void BlockRunner::CheckWarp(int warp) const {
  const int end = std::min(32 * warp + 32, block_threads_);
  for (int t = 32 * warp; t < end; ++t) {
    if (threads_[t].state == State::kInCollective) {
      Fail("a warp collective misses lanes of its mask");
    }
  }
}

std::string BlockRunner::ThreadList(
    const std::function<bool(const Thread&)>& in) const {
  std::string list;
  for (int t = 0; t < block_threads_; ++t) {
    if (!in(threads_[t])) continue;
    int last = t;
    while (last + 1 < block_threads_ && in(threads_[last + 1])) ++last;
    if (!list.empty()) list += ",";
    list += std::to_string(t);
    if (last > t) list += "-" + std::to_string(last);
    t = last;
  }
  return list;
}

std::string BlockRunner::Describe() const {
  std::string text = "  kernel ";
  Dl_info info;
  if (dladdr(shape_.kernel, &info) != 0 && info.dli_sname != nullptr) {
    text += info.dli_sname;
  } else {
    char address[32];
    std::snprintf(address, sizeof(address), "%p", shape_.kernel);
    text += address;
  }
  text += ", block (" + std::to_string(blockIdx.x) + ", " +
          std::to_string(blockIdx.y) + ", " + std::to_string(blockIdx.z) +
          ") of " + std::to_string(block_threads_) + " threads\n";
  const std::string ended =
      ThreadList([](const Thread& t) { return t.state == State::kEnded; });
  if (!ended.empty()) text += "  ended: threads " + ended + "\n";
  std::vector<CallSite> sites;
  const auto waits = [](const Thread& t) {
    return t.state == State::kAtBarrier || t.state == State::kInCollective;
  };
  for (const Thread& t : threads_) {
    if (!waits(t)) continue;
    bool known = false;
    for (const CallSite& s : sites) known = known || Same(s, t.site);
    if (!known) sites.push_back(t.site);
  }
  for (const CallSite& s : sites) {
    text += "  at " + At(s) + ": threads " + ThreadList([&](const Thread& t) {
              return waits(t) && Same(s, t.site);
            }) +
            "\n";
  }
  return text;
}

void BlockRunner::Fail(const std::string& message) const {
  std::fprintf(stderr, "fake CUDA: %s\n%s", message.c_str(),
               Describe().c_str());
  std::abort();
}

void BlockRunner::Trap() {
  trapped_ = true;
  switch_.Leave();
  std::abort();
}

void BlockRunner::CheckWaited(const char* what) const {
  if (!shape_.overlaps || threads_[current_].waited) return;
  Fail(std::string("a thread ") + what +
       " and has not waited for the kernels before its own");
}

void BlockRunner::AddLateCopy(const LateCopy& copy) {
  CheckWaited("copies memory");
  copies_used_ = true;
  copies_[current_].open.push_back(copy);
}

void BlockRunner::CommitLateCopies() {
  copies_used_ = true;
  CopyGroups& c = copies_[current_];
  c.committed.push_back(std::move(c.open));
  c.open.clear();
}

void BlockRunner::FinishLateCopies(int pending) {
  auto& groups = copies_[current_].committed;
  const int finished = static_cast<int>(groups.size()) - pending;
  for (int g = 0; g < finished; ++g) {
    for (const LateCopy& copy : groups[g]) {
      if (copy.from == nullptr) {
        std::memset(copy.to, 0, 16);
      } else {
        std::memcpy(copy.to, copy.from, 16);
      }
    }
  }
  if (finished > 0) groups.erase(groups.begin(), groups.begin() + finished);
}

// --- what device code calls -------------------------------------------------

BarrierVotes SyncBlock(const CallSite& site, bool vote) {
  return BlockRunner::OfThisThread().SyncBlock(site, vote);
}
void WarpCollective(const CallSite& site, uint32_t mask, void* request,
                    Resolve resolve) {
  BlockRunner::OfThisThread().WarpCollective(site, mask, request, resolve);
}
int CurrentLane() { return BlockRunner::OfThisThread().CurrentLane(); }
void Fail(const char* message) { BlockRunner::OfThisThread().Fail(message); }
void Trap() { BlockRunner::OfThisThread().Trap(); }
void WaitForEarlierGrids() {
  BlockRunner::OfThisThread().WaitForEarlierGrids();
}
void* DynamicSharedMemory() {
  return BlockRunner::OfThisThread().dynamic_shared();
}
void AddLateCopy(const LateCopy& copy) {
  BlockRunner::OfThisThread().AddLateCopy(copy);
}
void CommitLateCopies() { BlockRunner::OfThisThread().CommitLateCopies(); }
void FinishLateCopies(int pending) {
  BlockRunner::OfThisThread().FinishLateCopies(pending);
}
bool RunGrid(const GridShape& shape, const std::function<void()>& thread) {
  return BlockRunner::OfThisThread().Run(shape, thread);
}
void SetFiberOrder(FiberOrder order, uint64_t seed) {
  BlockRunner::OfThisThread().SetOrder(order, seed);
}

}  // namespace comera::fake_cuda
