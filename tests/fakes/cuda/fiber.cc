// Switches between the stacks on which device threads run.
#include "tests/fakes/cuda/fiber.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(COMERA_TSAN)
#include <sanitizer/tsan_interface.h>
#endif

namespace comera::fake_cuda {
namespace {

using boost::context::detail::jump_fcontext;
using boost::context::detail::make_fcontext;
using boost::context::detail::transfer_t;

constexpr size_t kGuardBytes = 4096;
// Kernels keep small arrays; sanitizers pad them. Pages come when touched.
constexpr size_t kStackBytes = 512 * 1024;

}  // namespace

Fiber::Fiber(FiberSwitch* owner, std::function<void()> body)
    : owner_(owner), body_(std::move(body)) {
  void* mapping =
      mmap(nullptr, kGuardBytes + kStackBytes, PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (mapping == MAP_FAILED || mprotect(mapping, kGuardBytes, PROT_NONE) != 0) {
    std::perror("stack of a fiber");
    std::abort();
  }
  mapping_ = static_cast<char*>(mapping);
  context_ = make_fcontext(mapping_ + kGuardBytes + kStackBytes, kStackBytes,
                           &Fiber::Main);
#if defined(COMERA_TSAN)
  tsan_fiber_ = __tsan_create_fiber(0);
#endif
}

Fiber::~Fiber() {
#if defined(__SANITIZE_ADDRESS__)
  ASAN_UNPOISON_MEMORY_REGION(mapping_ + kGuardBytes, kStackBytes);
#endif
#if defined(COMERA_TSAN)
  __tsan_destroy_fiber(tsan_fiber_);
#endif
  munmap(mapping_, kGuardBytes + kStackBytes);
}

void Fiber::Main(transfer_t transfer) {
  auto* self = static_cast<Fiber*>(transfer.data);
  self->owner_->host_ = transfer.fctx;
  self->owner_->Arrived();
  self->body_();
  std::abort();
}

void FiberSwitch::Arrived() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(running_->fake_stack_, &host_stack_,
                                  &host_stack_bytes_);
#endif
}

void FiberSwitch::Enter(Fiber* fiber) {
  running_ = fiber;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&host_fake_stack_,
                                 fiber->mapping_ + kGuardBytes, kStackBytes);
#endif
#if defined(COMERA_TSAN)
  host_tsan_fiber_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(fiber->tsan_fiber_, 0);
#endif
  const transfer_t transfer = jump_fcontext(fiber->context_, fiber);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(host_fake_stack_, nullptr, nullptr);
#endif
  fiber->context_ = transfer.fctx;
  running_ = nullptr;
}

void FiberSwitch::Leave() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&running_->fake_stack_, host_stack_,
                                 host_stack_bytes_);
#endif
#if defined(COMERA_TSAN)
  __tsan_switch_to_fiber(host_tsan_fiber_, 0);
#endif
  const transfer_t transfer = jump_fcontext(host_, nullptr);
  host_ = transfer.fctx;
  Arrived();
}

}  // namespace comera::fake_cuda
