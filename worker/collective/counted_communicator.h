#ifndef COMERA_WORKER_COLLECTIVE_COUNTED_COMMUNICATOR_H_
#define COMERA_WORKER_COLLECTIVE_COUNTED_COMMUNICATOR_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "worker/collective/communicator.h"

namespace comera::collective {

// Another communicator, whose collectives are also counted when they begin: a
// member that hangs has begun fewer than those that wait for it. Thread safety
// and errors are the other's, which must outlive this one.
class CountedCommunicator : public Communicator {
 public:
  explicit CountedCommunicator(Communicator* inner)
      : inner_(inner), begun_(inner->collectives_done()) {}

  int rank() const override { return inner_->rank(); }
  int world_size() const override { return inner_->world_size(); }
  absl::Status AllReduce(absl::Span<float> values) override {
    ++begun_;
    return inner_->AllReduce(values);
  }
  absl::Status AllReduceCompressed(absl::Span<float> values,
                                   size_t exact_tail) override {
    ++begun_;
    return inner_->AllReduceCompressed(values, exact_tail);
  }
  absl::Status Broadcast(absl::Span<char> bytes, int root) override {
    ++begun_;
    return inner_->Broadcast(bytes, root);
  }
  absl::Status Barrier() override {
    ++begun_;
    return inner_->Barrier();
  }
  bool on_device() const override { return inner_->on_device(); }
  absl::Status EnqueueAllReduce(absl::Span<float> values,
                                size_t exact_tail) override {
    ++begun_;
    return inner_->EnqueueAllReduce(values, exact_tail);
  }
  absl::Status JoinAllReduces() override { return inner_->JoinAllReduces(); }
  absl::Status Replayed(int64_t all_reduces) override {
    begun_ += all_reduces;
    return inner_->Replayed(all_reduces);
  }
  void Abort() override { inner_->Abort(); }
  int64_t collectives_done() const override {
    return inner_->collectives_done();
  }
  int64_t collectives_begun() const override {
    return std::max<int64_t>(begun_, inner_->collectives_done());
  }

 private:
  Communicator* const inner_;
  std::atomic<int64_t> begun_;
};

}  // namespace comera::collective

#endif  // COMERA_WORKER_COLLECTIVE_COUNTED_COMMUNICATOR_H_
