// Runs the blocks of a grid, a fiber per thread that has to wait.
//
// A fiber runs thread after thread; only when a thread waits, the next one gets
// another fiber. So a kernel without barriers never switches.
#ifndef COMERA_TESTS_FAKES_CUDA_BLOCK_RUNNER_H_
#define COMERA_TESTS_FAKES_CUDA_BLOCK_RUNNER_H_

#include <cuda_runtime.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/fakes/cuda/fake_cuda.h"
#include "tests/fakes/cuda/fiber.h"

namespace comera::fake_cuda {

// One per host thread.
class BlockRunner {
 public:
  static BlockRunner& OfThisThread();

  void SetOrder(FiberOrder order, uint64_t seed);
  bool Run(const GridShape& shape, const std::function<void()>& thread);

  // Called by the device thread that runs now.
  BarrierVotes SyncBlock(const CallSite& site, bool vote);
  void WarpCollective(const CallSite& site, uint32_t mask, void* request,
                      Resolve resolve);
  int CurrentLane() const { return current_ & 31; }
  [[noreturn]] void Fail(const std::string& message) const;
  [[noreturn]] void Trap();
  void WaitForEarlierGrids() { threads_[current_].waited = true; }
  void* dynamic_shared() {
    CheckWaited("uses shared memory");
    return dynamic_shared_.get();
  }
  void AddLateCopy(const LateCopy& copy);
  void CommitLateCopies();
  void FinishLateCopies(int pending);

 private:
  enum class State { kNew, kReady, kAtBarrier, kInCollective, kEnded };
  struct Thread {
    State state = State::kNew;
    Fiber* fiber = nullptr;
    CallSite site = {};
    bool vote = false;
    bool waited = false;  // for the grids before this one
  };
  // A warp's collective that lanes have come to, and others are still missing.
  struct Gathering {
    uint32_t mask = 0, missing = 0;
    CallSite site = {};
    void* requests[32] = {};
  };
  struct CopyGroups {
    std::vector<std::vector<LateCopy>> committed;
    std::vector<LateCopy> open;
  };

  void RunBlock();
  void RunWarp(int warp);
  // The next thread of the warp's sweep that can run, or false.
  bool Advance();
  void Enter(int thread);
  void FiberBody();
  void Wait();
  void ReleaseBarrier();
  void CheckWarp(int warp) const;
  void CheckWaited(const char* what) const;
  std::string ThreadList(const std::function<bool(const Thread&)>& in) const;
  std::string Describe() const;
  void Order(std::vector<int>& items);
  uint64_t Random();

  FiberOrder order_ = FiberOrder::kForward;
  uint64_t random_ = 0;

  GridShape shape_;
  const std::function<void()>* thread_ = nullptr;
  int block_threads_ = 0;
  std::vector<Thread> threads_;
  std::vector<Gathering> gatherings_;  // one per warp
  std::vector<uint3> indices_;
  std::vector<CopyGroups> copies_;
  bool copies_used_ = false;
  std::vector<int> warps_, lanes_;
  int sweep_first_ = 0, sweep_at_ = 0;
  int current_ = -1;
  bool trapped_ = false;
  BarrierVotes votes_;
  struct FreeMemory {
    void operator()(void* memory) const;
  };
  std::unique_ptr<void, FreeMemory> dynamic_shared_;

  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;
  FiberSwitch switch_;
};

}  // namespace comera::fake_cuda

#endif  // COMERA_TESTS_FAKES_CUDA_BLOCK_RUNNER_H_
