// Members whose communicator is on the device: the sum over the gang is
// enqueued between the graphs of a step.
#include <atomic>
#include <memory>

#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "tests/fakes/recording_backend.h"
#include "tests/worker/trainer/graph_backend.h"
#include "tests/worker/trainer/loop/trainer_harness.h"
#include "worker/collective/communicator.h"
#include "worker/trainer/process/failure.h"

namespace comera::trainer {
namespace {

// The requests to all members together.
struct Talk {
  std::atomic<int64_t> enqueued{0}, reduced{0};
  // Sums from this one on are given up: the device goes on without them.
  int64_t given_up = INT64_MAX;
};

// Sums when the backend's operations before it have run.
class DeviceCommunicator : public collective::Communicator {
 public:
  DeviceCommunicator(collective::Communicator* inner, kernels::Backend* backend,
                     Talk* talk)
      : inner_(*inner),
        backend_(*static_cast<kernels::RecordingBackend*>(backend)),
        talk_(*talk) {}

  int rank() const override { return inner_.rank(); }
  int world_size() const override { return inner_.world_size(); }
  absl::Status AllReduce(absl::Span<float> values) override {
    return inner_.AllReduce(values);
  }
  absl::Status Broadcast(absl::Span<char> bytes, int root) override {
    return inner_.Broadcast(bytes, root);
  }
  absl::Status Barrier() override { return inner_.Barrier(); }
  bool on_device() const override { return true; }
  absl::Status EnqueueAllReduce(absl::Span<float> values,
                                size_t exact_tail) override {
    ++talk_.enqueued;
    return backend_.Enqueue("AllReduce", [=] {
      if (++talk_.reduced > talk_.given_up) {
        lost_ = true;
        return absl::OkStatus();
      }
      return inner_.AllReduce(values);
    });
  }
  absl::Status JoinAllReduces() override { return absl::OkStatus(); }
  absl::Status Replayed(int64_t) override {
    return lost_ ? absl::UnavailableError("a rank was lost") : absl::OkStatus();
  }
  void Abort() override { inner_.Abort(); }
  int64_t collectives_done() const override {
    return inner_.collectives_done();
  }

 private:
  collective::Communicator& inner_;
  kernels::RecordingBackend& backend_;
  Talk& talk_;
  bool lost_ = false;
};

void RunTwo(bool on_device, Talk* talk, TestRun* run) {
  run->make_backend = MakeGraphBackend;
  if (on_device) {
    run->make_communicator = [=](collective::Communicator* inner,
                                 kernels::Backend* backend) {
      return std::make_unique<DeviceCommunicator>(inner, backend, talk);
    };
  }
  run->Run(2);
  ASSERT_OK(run->end);
}

TEST(CapturedRanksTest, TheSumIsEnqueuedBetweenGraphs) {
  Talk talk;
  TestRun on_device, on_host;
  RunTwo(true, &talk, &on_device);
  RunTwo(false, nullptr, &on_host);
  EXPECT_EQ(on_device.Losses(), on_host.Losses());
  EXPECT_EQ(on_device.exported, on_host.exported);
  const StepRunner::Counters& counters = on_device.graph_counters;
  // Gradients and update of each step.
  EXPECT_EQ(counters.eager + counters.captured + counters.replayed, 2 * 30);
  EXPECT_GT(counters.replayed, 2 * 10);
  // Every member sums in every step, and never in a graph.
  EXPECT_EQ(talk.reduced, 2 * 30);
  EXPECT_EQ(talk.enqueued, 2 * 30);
}

TEST(CapturedRanksTest, EveryBucketHasAGraphAndASumOfItsOwn) {
  for (const int parts : {1, 4}) {
    Talk talk;
    TestRun whole, buckets;
    for (TestRun* run : {&whole, &buckets}) {
      run->spec.mutable_training()->set_accumulate(parts);
    }
    buckets.bucket_floats = 1;
    RunTwo(false, nullptr, &whole);
    RunTwo(true, &talk, &buckets);
    EXPECT_EQ(buckets.Losses(), whole.Losses());
    EXPECT_EQ(buckets.exported, whole.exported);
    // The tiny model has two halves and an embedding.
    EXPECT_EQ(talk.reduced, 2 * 30 * 3);
    EXPECT_GT(buckets.graph_counters.replayed, 2 * 10);
  }
}

TEST(CapturedRanksTest, TheLateStageSumsOnTheDeviceToo) {
  Talk talk;
  TestRun on_device, on_host;
  for (TestRun* run : {&on_device, &on_host}) {
    run->spec.mutable_objective()->mutable_late()->set_target_loss(0.01);
    run->spec.mutable_objective()->mutable_late()->set_target_ratio(0.7);
    run->spec.mutable_objective()->mutable_late()->set_max_steps(10);
    run->spec = WithDefaults(run->spec);
    RunTwo(run == &on_device, &talk, run);
  }
  EXPECT_EQ(on_device.Losses(), on_host.Losses());
  EXPECT_EQ(on_device.exported, on_host.exported);
  EXPECT_EQ(talk.reduced, 2 * 40);
}

// The numbers of a step whose sum was given up look like any others.
TEST(CapturedRanksTest, ASumThatWasGivenUpLeavesNoTrace) {
  Talk talk;
  talk.given_up = 2 * 9;  // in the tenth step, which writes a checkpoint
  FakeDisk disk;
  TestRun run;
  run.disk = &disk;
  run.make_backend = MakeGraphBackend;
  run.make_communicator = [&](collective::Communicator* inner,
                              kernels::Backend* backend) {
    return std::make_unique<DeviceCommunicator>(inner, backend, &talk);
  };
  run.spec.mutable_checkpoint()->set_every_steps(10);
  run.Run(2);
  EXPECT_THAT(run.end, StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_EQ(FailureClassOf(run.end.status()), v1::COLLECTIVE_HANG);
  EXPECT_TRUE(disk.files.empty());
}

TEST(CapturedRanksTest, AllRanksStopAfterTheSameStep) {
  for (const int stopping : {0, 1}) {
    Talk talk;
    FakeDisk disk;
    TestRun run;
    run.disk = &disk;
    run.stop_after_step = 7;
    run.stop_member = stopping;
    RunTwo(true, &talk, &run);
    EXPECT_TRUE(run.end->stopped);
    EXPECT_EQ(run.last_steps[0], run.last_steps[1]);
    EXPECT_GE(run.last_steps[0], 8);
    EXPECT_LE(run.last_steps[0], 10);
    EXPECT_FALSE(disk.files.empty());
  }
}

}  // namespace
}  // namespace comera::trainer
