// Stacks of their own and jumps between them (Boost.Context), told to
// AddressSanitizer and ThreadSanitizer.
#ifndef COMERA_TESTS_FAKES_CUDA_FIBER_H_
#define COMERA_TESTS_FAKES_CUDA_FIBER_H_

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>
#include <functional>

namespace comera::fake_cuda {

class FiberSwitch;

// A stack on which `body` runs from the first Enter; it never returns.
class Fiber {
 public:
  Fiber(FiberSwitch* owner, std::function<void()> body);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

 private:
  friend class FiberSwitch;
  static void Main(boost::context::detail::transfer_t transfer);

  FiberSwitch* owner_;
  std::function<void()> body_;
  char* mapping_;
  boost::context::detail::fcontext_t context_;
  void* fake_stack_ = nullptr;
  void* tsan_fiber_ = nullptr;
};

// Switches between a host thread's own stack and its fibers.
class FiberSwitch {
 public:
  // Called on the thread's own stack; returns at the fiber's Leave.
  void Enter(Fiber* fiber);
  // Called within a fiber; returns at its next Enter.
  void Leave();

 private:
  friend class Fiber;
  void Arrived();

  Fiber* running_ = nullptr;
  boost::context::detail::fcontext_t host_ = nullptr;
  const void* host_stack_ = nullptr;
  size_t host_stack_bytes_ = 0;
  void* host_fake_stack_ = nullptr;
  void* host_tsan_fiber_ = nullptr;
};

}  // namespace comera::fake_cuda

#endif  // COMERA_TESTS_FAKES_CUDA_FIBER_H_
