// Several members in one process do what one member with the same global batch
// does.
#include <atomic>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "common/status_macros.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/data/batch/character_tokenizer.h"
#include "tests/worker/trainer/loop/trainer_harness.h"
#include "worker/collective/counted_communicator.h"
#include "worker/trainer/data/batch/in_memory_data.h"
#include "worker/trainer/data/batch/sample_set.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/create_model.h"
#include "worker/trainer/model/encoder/encoder_model.h"
#include "worker/trainer/process/failure.h"

namespace comera::trainer {
namespace {

class TrainerRanksTest : public ::testing::TestWithParam<int> {};

TEST_P(TrainerRanksTest, LossesAreThoseOfOneRank) {
  const int members = GetParam();
  TestRun one, many;
  ASSERT_EQ(one.spec.model().dropout(), 0.1);
  for (TestRun* run : {&one, &many}) {
    run->spec.mutable_objective()->mutable_early()->set_steps(20);
  }
  one.Run(1);
  many.Run(members);
  ASSERT_OK(one.end);
  for (const absl::Status& status : many.statuses) ASSERT_OK(status);
  const auto want = one.Losses();
  const auto got = many.Losses();
  ASSERT_EQ(want.size(), 20u);
  ASSERT_EQ(got.size(), 20u);
  for (const auto& [step, loss] : want) {
    EXPECT_NEAR(got.at(step), loss, 1e-5 * loss) << "step " << step;
  }
  EXPECT_NEAR(many.end->result.validation_loss(),
              one.end->result.validation_loss(), 1e-4);
  EXPECT_EQ(many.events.front().run_info().world_size(), members);
}

TEST_P(TrainerRanksTest, LossesAreThoseOfOneRankWhereBucketsAreSummed) {
  const int members = GetParam();
  for (const int parts : {1, 2}) {
    TestRun one, many;
    for (TestRun* run : {&one, &many}) {
      run->spec.mutable_training()->set_accumulate(run == &one ? 1 : parts);
      run->spec.mutable_objective()->mutable_early()->set_steps(20);
    }
    many.bucket_floats = 1;
    one.Run(1);
    many.Run(members);
    ASSERT_OK(one.end);
    for (const absl::Status& status : many.statuses) ASSERT_OK(status);
    const auto want = one.Losses();
    ASSERT_EQ(want.size(), 20u);
    for (const auto& [step, loss] : want) {
      EXPECT_NEAR(many.Losses().at(step), loss, 1e-5 * loss)
          << parts << " parts, step " << step;
    }
  }
}

// The host has a part in these updates.
TEST_P(TrainerRanksTest, TheLateStageAndSpikesSumBucketsToo) {
  const int members = GetParam();
  TestRun one, many;
  for (TestRun* run : {&one, &many}) {
    run->spec.mutable_objective()->mutable_early()->set_steps(10);
    run->spec.mutable_objective()->mutable_late()->set_target_loss(0.01);
    run->spec.mutable_objective()->mutable_late()->set_target_ratio(0.7);
    run->spec.mutable_objective()->mutable_late()->set_max_steps(6);
    run->spec.mutable_training()->set_spike_factor(50);
    run->spec = WithDefaults(run->spec);
  }
  many.bucket_floats = 1;
  one.Run(members);
  many.Run(members);
  for (const absl::Status& status : many.statuses) ASSERT_OK(status);
  const auto want = one.Losses();
  ASSERT_EQ(want.size(), 16u);
  for (const auto& [step, loss] : want) {
    EXPECT_NEAR(many.Losses().at(step), loss, 1e-5 * loss) << "step " << step;
  }
}

// 40 samples of 3 to 8 tokens, which are dealt by their lengths.
std::unique_ptr<TrainingData> SamplesOfManyLengths() {
  const auto tokens = [](int i) {
    std::vector<int32_t> ids(3 + i * 5 % 6, 'a' + i % 7);
    ids.front() = 2;
    ids.back() = 4;
    return ids;
  };
  SampleSets samples;
  samples.train = samples.validation = SampleSet(128);
  for (int i = 0; i < 40; ++i) {
    const std::vector<int32_t> ids = tokens(i);
    const auto end = static_cast<int32_t>(ids.size());
    EXPECT_OK(samples.train.Add(ids, end, 0));
    if (i >= 4) continue;
    EXPECT_OK(samples.validation.Add(ids, end, 0));
  }
  InMemoryData::Options options;
  options.max_length = 8;
  options.seed = 7;
  options.mask_probability = 0.3;
  return std::make_unique<InMemoryData>(options, std::move(samples),
                                        std::make_unique<CharacterTokenizer>());
}

TEST_P(TrainerRanksTest, LossesAreThoseOfOneRankWhereSamplesAreDealt) {
  const int members = GetParam();
  const auto data = SamplesOfManyLengths();
  Batch first;
  ASSERT_OK(data->TrainBatch(0, 8, 0, 4, &first));
  ASSERT_THAT(first.samples, ::testing::Not(::testing::ElementsAre(0, 1)));
  TestRun one, many;
  for (TestRun* run : {&one, &many}) {
    run->spec.mutable_compression()->mutable_embedding()->set_input_modes(0, 8);
    run->spec.mutable_compression()->mutable_embedding()->set_input_modes(1,
                                                                          16);
    run->spec.mutable_objective()->mutable_early()->set_steps(20);
    run->other_data = data.get();
  }
  one.Run(1);
  many.Run(members);
  ASSERT_OK(one.end);
  for (const absl::Status& status : many.statuses) ASSERT_OK(status);
  const auto want = one.Losses();
  ASSERT_EQ(want.size(), 20u);
  for (const auto& [step, loss] : want) {
    EXPECT_NEAR(many.Losses().at(step), loss, 1e-5 * loss) << "step " << step;
  }
}

TEST_P(TrainerRanksTest, CompactTogetherAndStopTogether) {
  const int members = GetParam();
  TestRun run;
  FakeDisk disk;
  run.disk = &disk;
  run.spec.mutable_objective()->mutable_early()->set_steps(80);
  run.spec.mutable_objective()->mutable_early()->set_gamma(20);
  run.stop_after_step = 57;
  run.stop_member = members - 1;
  run.Run(members);
  for (const absl::Status& status : run.statuses) ASSERT_OK(status);
  EXPECT_TRUE(run.end->stopped);
  EXPECT_GE(run.Select(&v1::TrainerEvent::has_rank_snapshot).size(), 2u);
  for (int64_t step : run.last_steps) EXPECT_EQ(step, run.last_steps[0]);
  EXPECT_LT(run.last_steps[0], 80);
  // Rank 0 left a checkpoint at that step, and the job goes on from it.
  TestRun again;
  again.spec = run.spec;
  again.disk = &disk;
  again.resume = true;
  again.Run(members);
  for (const absl::Status& status : again.statuses) ASSERT_OK(status);
  EXPECT_EQ(again.events.front().run_info().resumed_from_step(),
            run.last_steps[0]);
  EXPECT_EQ(again.end->result.outcome(), v1::COMPLETED);
}

// An elastic job goes on from its checkpoint with other members and
// repeats the losses of the run that was never stopped.
TEST(TrainerElasticTest, LossesDoNotDependOnTheRanksOfEachAttempt) {
  TestRun whole;
  whole.spec.mutable_objective()->mutable_early()->set_steps(60);
  whole.Run(4);
  ASSERT_OK(whole.end);
  const auto want = whole.Losses();
  FakeDisk disk;
  int64_t last = 0;
  bool first = true;
  for (const auto& [members, until] :
       {std::make_pair(4, 20), std::make_pair(2, 35), std::make_pair(1, 45),
        std::make_pair(4, 0)}) {
    SCOPED_TRACE(members);
    TestRun part;
    part.spec = whole.spec;
    part.disk = &disk;
    part.resume = !first;
    if (until > 0) part.stop_after_step = until;
    part.Run(members);
    for (const absl::Status& status : part.statuses) ASSERT_OK(status);
    EXPECT_EQ(part.events.front().run_info().resumed_from_step(), last);
    for (const auto& [step, loss] : part.Losses()) {
      EXPECT_NEAR(loss, want.at(step), 1e-5 * loss) << "step " << step;
    }
    last = part.last_steps[0];
    first = false;
    if (until == 0) {
      EXPECT_NEAR(part.end->result.validation_loss(),
                  whole.end->result.validation_loss(), 1e-4);
    }
  }
}

// Only the products of oneDNN may add in another order on more threads.
TEST(TrainerThreadsTest, LossesAreThoseOfOneThread) {
  std::map<int64_t, double> want;
  for (int threads : {1, 2, 3}) {
    SCOPED_TRACE(threads);
    TestRun run;
    // Wide and long enough for every kind of work to be shared out.
    run.spec.mutable_model()->set_hidden(64);
    run.spec.mutable_model()->set_ffn(256);
    v1::CompressionSpec& layers = *run.spec.mutable_compression();
    for (v1::LayerCompression* layer :
         {layers.mutable_embedding(), layers.mutable_attention(),
          layers.mutable_ffn_up(), layers.mutable_ffn_down(),
          layers.mutable_head()}) {
      layer->Clear();
      layer->add_ranks(12);
    }
    run.spec.mutable_training()->set_batch_size(64);
    run.spec.mutable_objective()->mutable_early()->set_steps(20);
    run.threads = threads;
    run.Run();
    ASSERT_OK(run.end);
    const auto losses = run.Losses();
    ASSERT_EQ(losses.size(), 20u);
    if (threads == 1) want = losses;
    for (const auto& [step, loss] : want) {
      EXPECT_NEAR(losses.at(step), loss, 1e-6 * loss) << "step " << step;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, TrainerRanksTest, ::testing::Values(1, 2, 4));

TEST(TrainerGangTest, BatchMustDivide) {
  TestRun run;
  run.spec.mutable_training()->set_batch_size(9);
  run.Run(2);
  EXPECT_THAT(run.statuses[0], StatusIs(absl::StatusCode::kInvalidArgument,
                                        ::testing::HasSubstr("batch_size")));
}

// One of two members ran out of memory, and the other lost it.
void ExpectOneFailedAndOneLost(const TestRun& run) {
  int exhausted = 0, lost = 0;
  for (const absl::Status& status : run.statuses) {
    exhausted += absl::IsResourceExhausted(status) ? 1 : 0;
    lost += FailureClassOf(status) == v1::COLLECTIVE_HANG ? 1 : 0;
  }
  EXPECT_EQ(exhausted, 1);
  EXPECT_EQ(lost, 1);
}

// Two members in the second step: one fails behind its first bucket, while the
// other does not come to the sum of that bucket until it is told of the end.
struct Failure {
  std::atomic<int> made{0};
  absl::Notification told;
};

class FailingModel : public EncoderModel {
 public:
  FailingModel(const ModelConfig& config, int64_t batch_size,
               kernels::Backend* backend, Failure* failure)
      : EncoderModel(config, batch_size, backend),
        fails_(failure->made++ == 0),
        told_(failure->told) {}

  absl::Status BackwardBucket(const float* parameters, float* gradients,
                              const ParameterRange& bucket) override {
    const bool first = bucket.first + bucket.size == layout().trained_size();
    steps_ += first ? 1 : 0;
    if (steps_ == 2 && fails_ && !first) {
      return absl::ResourceExhaustedError("activations");
    }
    if (steps_ == 2 && !fails_ && first) {
      EXPECT_TRUE(told_.WaitForNotificationWithTimeout(absl::Seconds(20)));
    }
    return EncoderModel::BackwardBucket(parameters, gradients, bucket);
  }

 private:
  const bool fails_;
  absl::Notification& told_;
  int steps_ = 0;
};

class TellingCommunicator : public collective::CountedCommunicator {
 public:
  TellingCommunicator(collective::Communicator* inner, Failure* failure)
      : CountedCommunicator(inner), told_(failure->told) {}

  void Abort() override {
    CountedCommunicator::Abort();
    if (!told_.HasBeenNotified()) told_.Notify();
  }

 private:
  absl::Notification& told_;
};

TEST(TrainerGangTest, AFailureBehindABucketWaitsForNobody) {
  Failure failure;
  TestRun run;
  run.bucket_floats = 1;
  run.model_factory =
      [&](const ModelConfig& config, int64_t batch_size,
          kernels::Backend* backend) -> absl::StatusOr<std::unique_ptr<Model>> {
    auto model =
        std::make_unique<FailingModel>(config, batch_size, backend, &failure);
    RETURN_IF_ERROR(model->Allocate());
    return model;
  };
  run.make_communicator = [&](collective::Communicator* inner,
                              kernels::Backend*) {
    return std::make_unique<TellingCommunicator>(inner, &failure);
  };
  run.Run(2);
  ExpectOneFailedAndOneLost(run);
}

TEST(TrainerGangTest, ARankThatFailsEndsTheOthers) {
  TestRun run;
  run.model_factory =
      [](const ModelConfig& config, int64_t batch_size,
         kernels::Backend* backend) -> absl::StatusOr<std::unique_ptr<Model>> {
    static std::atomic<int> made{0};
    if (made++ == 1) return absl::ResourceExhaustedError("activations");
    return CreateModel(config, batch_size, backend);
  };
  run.Run(2);
  ExpectOneFailedAndOneLost(run);
}

}  // namespace
}  // namespace comera::trainer
