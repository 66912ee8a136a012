// Members whose communicator is on the device: the sum over the gang is
// enqueued between the graphs of a step.
#include <atomic>
#include <memory>
#include <numeric>
#include <utility>

#include "common/status_macros.h"
#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
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
  // Gradients travel as bfloat16.
  bool compress = false;
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
      return talk_.compress ? inner_.AllReduceCompressed(values, exact_tail)
                            : inner_.AllReduce(values);
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

// Deals samples of one length, so that all parts of a batch have one shape.
class DealtData : public FakeTrainingData {
 public:
  absl::Status TrainBatch(int64_t step, int64_t batch_size, int rank,
                          int world_size, Batch* batch) const override {
    RETURN_IF_ERROR(FakeTrainingData::TrainBatch(step, batch_size, rank,
                                                 world_size, batch));
    batch->samples.resize(batch->size);
    std::iota(batch->samples.begin(), batch->samples.end(),
              batch->first_sample);
    return absl::OkStatus();
  }
};

// Refuses every second capture: the second piece of one step, and the first of
// another, which then runs without graphs.
class HalfRefusingBackend : public kernels::RecordingBackend {
 public:
  explicit HalfRefusingBackend(std::unique_ptr<kernels::Backend> cpu)
      : RecordingBackend(cpu.get()), cpu_(std::move(cpu)) {}

  absl::Status BeginCapture() override {
    if (++captures_ % 2 == 0) return absl::InternalError("no capture now");
    return RecordingBackend::BeginCapture();
  }

 private:
  const std::unique_ptr<kernels::Backend> cpu_;
  int captures_ = 0;
};

void RunTwo(bool on_device, Talk* talk, TestRun* run) {
  if (!run->make_backend) run->make_backend = MakeGraphBackend;
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
  const FakeTrainingData in_order;
  const DealtData dealt;
  const std::pair<int, const TrainingData*> cases[] = {
      {1, &in_order}, {4, &in_order}, {4, &dealt}};
  for (const auto& [parts, data] : cases) {
    Talk talk;
    TestRun whole, buckets;
    for (TestRun* run : {&whole, &buckets}) {
      run->spec.mutable_training()->set_accumulate(parts);
      run->other_data = data;
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

TEST(CapturedRanksTest, EveryBucketIsCompressedButForTheTail) {
  Talk whole_talk, talk, exact_talk;
  TestRun whole, buckets, exact;
  whole_talk.compress = talk.compress = true;
  buckets.bucket_floats = exact.bucket_floats = 1;
  RunTwo(true, &whole_talk, &whole);
  RunTwo(true, &talk, &buckets);
  RunTwo(true, &exact_talk, &exact);
  EXPECT_EQ(talk.reduced, 2 * 30 * 3);
  EXPECT_EQ(buckets.Losses(), whole.Losses());
  EXPECT_EQ(buckets.exported, whole.exported);
  // The first loss was summed in the tail, before any rounded gradient counts.
  EXPECT_EQ(buckets.Losses().at(1), exact.Losses().at(1));
  EXPECT_NE(buckets.exported, exact.exported);
}

TEST(CapturedRanksTest, AStepWhoseLaterPieceCannotBeCapturedGoesOn) {
  Talk talk;
  TestRun captured, refused;
  captured.bucket_floats = refused.bucket_floats = 1;
  refused.make_backend = [] {
    return std::make_unique<HalfRefusingBackend>(
        kernels::CreateCpuBackend({1, 0}));
  };
  RunTwo(false, nullptr, &captured);
  RunTwo(true, &talk, &refused);
  EXPECT_EQ(refused.Losses(), captured.Losses());
  EXPECT_EQ(refused.exported, captured.exported);
  EXPECT_EQ(talk.reduced, 2 * 30 * 3);
  EXPECT_GT(refused.graph_counters.refused, 0);
  EXPECT_FALSE(refused.log.empty());
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
  for (const int sums : {1, 3}) {
    Talk talk;
    // The last sum of the tenth step, which writes a checkpoint.
    talk.given_up = 2 * 10 * sums - 2;
    FakeDisk disk;
    TestRun run;
    run.disk = &disk;
    run.bucket_floats = sums == 1 ? 0 : 1;
    run.make_backend = MakeGraphBackend;
    run.make_communicator = [&](collective::Communicator* inner,
                                kernels::Backend* backend) {
      return std::make_unique<DeviceCommunicator>(inner, backend, &talk);
    };
    run.spec.mutable_checkpoint()->set_every_steps(10);
    run.Run(2);
    EXPECT_THAT(run.end, StatusIs(absl::StatusCode::kUnavailable));
    EXPECT_EQ(FailureClassOf(run.end.status()), v1::COLLECTIVE_HANG);
    EXPECT_GT(talk.reduced, talk.given_up);
    EXPECT_TRUE(disk.files.empty());
  }
}

TEST(CapturedRanksTest, AllRanksStopAfterTheSameStep) {
  for (const int stopping : {0, 1}) {
    for (const int64_t bucket_floats : {0, 1}) {
      Talk talk;
      FakeDisk disk;
      TestRun run;
      run.disk = &disk;
      run.bucket_floats = bucket_floats;
      run.stop_after_step = 7;
      run.stop_member = stopping;
      RunTwo(true, &talk, &run);
      EXPECT_TRUE(run.end->stopped);
      EXPECT_EQ(run.last_steps[0], run.last_steps[1]);
      EXPECT_GE(run.last_steps[0], 8);
      EXPECT_LE(run.last_steps[0], 10);
      EXPECT_EQ(talk.reduced,
                2 * run.last_steps[0] * (bucket_floats == 0 ? 1 : 3));
      EXPECT_FALSE(disk.files.empty());
    }
  }
}

}  // namespace
}  // namespace comera::trainer
