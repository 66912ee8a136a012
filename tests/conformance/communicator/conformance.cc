// The suites: sums, broadcasts, barriers, aborts, time-outs and mismatches.

#include "tests/conformance/communicator/conformance.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <future>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "common/status_macros.h"
#include "common/status_matchers.h"
#include "gtest/gtest.h"

namespace comera::collective {
namespace {

using ::testing::Each;

// Far below the time-out: an earlier end means that the ranks were woken.
constexpr absl::Duration kSoon = absl::Seconds(20);

MATCHER(EndsTheGang, "") {
  return arg.code() == absl::StatusCode::kUnavailable ||
         arg.code() == absl::StatusCode::kAborted ||
         arg.code() == absl::StatusCode::kDeadlineExceeded ||
         arg.code() == absl::StatusCode::kInvalidArgument;
}

absl::Status SumIntegers(Communicator& communicator, size_t count) {
  const int world_size = communicator.world_size();
  std::vector<float> values(count + 2, -1);
  for (size_t i = 0; i < count; ++i) {
    values[i + 1] = (i % 1000) * 8 + communicator.rank();
  }
  RETURN_IF_ERROR(
      communicator.AllReduce(absl::MakeSpan(values).subspan(1, count)));
  const int sum_of_ranks = world_size * (world_size - 1) / 2;
  for (size_t i = 0; i < count; ++i) {
    if (values[i + 1] != (i % 1000) * 8 * world_size + sum_of_ranks) {
      return absl::InternalError("wrong sum");
    }
  }
  if (values.front() != -1 || values.back() != -1) {
    return absl::InternalError("wrote out of bounds");
  }
  return absl::OkStatus();
}

TEST_P(CommunicatorSizesTest, SumsIntegersExactly) {
  const auto [implementation, world_size] = GetParam();
  if (world_size > implementation.max_ranks) GTEST_SKIP() << "too many ranks";
  const Gang gang = implementation.factory(world_size, kTimeout);
  const auto body = [](Communicator& communicator) -> absl::Status {
    for (size_t count : {0, 1, 1023, 1 << 20}) {
      RETURN_IF_ERROR(SumIntegers(communicator, count));
    }
    EXPECT_EQ(communicator.collectives_done(), 4);
    return absl::OkStatus();
  };
  EXPECT_THAT(RunRanks(gang, body), Each(IsOk()));
}

TEST_P(CommunicatorTest, FloatSumsAreBitEqualOnEveryRankAndRun) {
  const int ranks = std::min(5, MaxRanks());
  std::vector<std::vector<float>> results;
  for (int run = 0; run < 3; ++run) {
    const Gang gang = MakeGang(ranks);
    std::vector<std::vector<float>> values(ranks);
    EXPECT_THAT(
        RunRanks(gang,
                 [&](Communicator& communicator) {
                   const int rank = communicator.rank();
                   std::mt19937 random(rank);
                   std::uniform_real_distribution<float> number(-1, 1);
                   values[rank].resize(10007);
                   for (float& v : values[rank]) v = number(random);
                   return communicator.AllReduce(absl::MakeSpan(values[rank]));
                 }),
        Each(IsOk()));
    for (auto& v : values) results.push_back(std::move(v));
  }
  for (const auto& result : results) {
    EXPECT_EQ(std::memcmp(result.data(), results[0].data(),
                          result.size() * sizeof(float)),
              0);
  }
}

// The bound that communicator.h states.
TEST_P(CommunicatorSizesTest, CompressedSumsKeepTheirBound) {
  const auto [implementation, world_size] = GetParam();
  if (world_size > implementation.max_ranks) GTEST_SKIP() << "too many ranks";
  constexpr int kTail = 3;
  for (const int count : {0, 2, kTail, 10, 4099}) {
    const Gang gang = implementation.factory(world_size, kTimeout);
    std::vector<std::vector<float>> values(world_size);
    std::vector<double> sums(count), magnitudes(count);
    for (int i = 0; i < world_size; ++i) {
      for (int j = 0; j < count; ++j) {
        values[i].push_back(std::sin(1 + j * 0.37f + i * 1.7f) *
                            std::pow(2.0f, j % 40 - 20));
        sums[j] += values[i][j];
        magnitudes[j] += std::abs(values[i][j]);
      }
    }
    const auto body = [&](Communicator& communicator) {
      return communicator.AllReduceCompressed(
          absl::MakeSpan(values[communicator.rank()]), kTail);
    };
    EXPECT_THAT(RunRanks(gang, body), Each(IsOk()));
    int rounded = 0;
    for (int j = 0; j < count; ++j) {
      const double error = std::abs(values[0][j] - sums[j]);
      const bool exact = j >= count - kTail || world_size == 1;
      EXPECT_LE(error, (exact ? 1e-6 : 1.0 / 128) * magnitudes[j]) << j;
      rounded += error > 1e-6 * magnitudes[j];
    }
    if (count > 1000 && world_size > 1) {
      EXPECT_GT(rounded, count / 2) << "nothing was compressed";
    }
    for (const auto& rank : values) EXPECT_EQ(rank, values[0]);
  }
}

TEST_P(CommunicatorTest, BroadcastsFromEveryRoot) {
  const int ranks = std::min(4, MaxRanks());
  const Gang gang = MakeGang(ranks);
  EXPECT_THAT(RunRanks(gang,
                       [&](Communicator& communicator) -> absl::Status {
                         for (int root = 0; root < ranks; ++root) {
                           for (size_t size : {0, 1, 1023}) {
                             const std::string sent(
                                 size, static_cast<char>('a' + root));
                             std::string got(size, '-');
                             if (communicator.rank() == root) got = sent;
                             RETURN_IF_ERROR(communicator.Broadcast(
                                 absl::MakeSpan(got), root));
                             EXPECT_EQ(got, sent);
                           }
                         }
                         EXPECT_EQ(communicator.collectives_done(), 3 * ranks);
                         return absl::OkStatus();
                       }),
              Each(IsOk()));
}

TEST_P(CommunicatorTest, RefusesAnUnknownRoot) {
  const Gang gang = MakeGang(1);
  char byte = 0;
  EXPECT_THAT(gang[0]->Broadcast(absl::MakeSpan(&byte, 1), 1),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_P(CommunicatorTest, NoRankPassesABarrierBeforeAllAreThere) {
  const int ranks = std::min(6, MaxRanks());
  const Gang gang = MakeGang(ranks);
  std::atomic<int> arrived{0};
  EXPECT_THAT(RunRanks(gang,
                       [&](Communicator& communicator) -> absl::Status {
                         for (int round = 1; round <= 20; ++round) {
                           ++arrived;
                           RETURN_IF_ERROR(communicator.Barrier());
                           EXPECT_GE(arrived, round * ranks);
                           RETURN_IF_ERROR(communicator.Barrier());
                         }
                         return absl::OkStatus();
                       }),
              Each(IsOk()));
}

TEST_P(CommunicatorTest, LeavingAfterTheLastCollectiveHarmsNobody) {
  Gang gang = MakeGang(std::min(3, MaxRanks()));
  std::vector<std::thread> threads;
  for (auto& communicator : gang) {
    threads.emplace_back([communicator = std::move(communicator)]() mutable {
      std::vector<float> values(100000, 1);
      EXPECT_OK(communicator->AllReduce(absl::MakeSpan(values)));
      EXPECT_OK(communicator->Barrier());
      communicator.reset();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(CommunicatorTest, AbortEndsACollectiveHereAndElsewhere) {
  if (MaxRanks() < 3) GTEST_SKIP() << "needs 3 ranks";
  // Rank 2 never comes, so ranks 0 and 1 block until rank 0 is aborted.
  const Gang gang = MakeGang(3);
  std::promise<void> begun;
  std::vector<absl::Status> statuses(2);
  std::vector<float> values(1023);
  const absl::Time start = absl::Now();
  std::thread first([&] {
    begun.set_value();
    statuses[0] = gang[0]->AllReduce(absl::MakeSpan(values));
  });
  std::thread second([&] {
    std::vector<float> mine(1023);
    statuses[1] = gang[1]->AllReduce(absl::MakeSpan(mine));
  });
  begun.get_future().wait();
  gang[0]->Abort();
  first.join();
  second.join();
  EXPECT_LT(absl::Now() - start, kSoon);
  EXPECT_THAT(statuses[0], StatusIs(absl::StatusCode::kAborted));
  EXPECT_THAT(statuses[1], StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_EQ(gang[0]->collectives_done(), 0);
  // The communicator stays broken.
  EXPECT_THAT(gang[0]->Barrier(), StatusIs(absl::StatusCode::kAborted));
  EXPECT_THAT(gang[1]->Barrier(), StatusIs(absl::StatusCode::kUnavailable));
}

TEST_P(CommunicatorTest, ALostRankEndsTheOthers) {
  if (MaxRanks() < 4) GTEST_SKIP() << "needs 4 ranks";
  Gang gang = MakeGang(4);
  const absl::Time start = absl::Now();
  Gang survivors;
  for (int rank : {0, 1, 3}) survivors.push_back(std::move(gang[rank]));
  std::thread doomed([lost = std::move(gang[2])]() mutable {
    float value = 1;
    EXPECT_OK(lost->AllReduce(absl::MakeSpan(&value, 1)));
    lost.reset();
  });
  EXPECT_THAT(
      RunRanks(survivors,
               [&](Communicator& communicator) {
                 absl::Status status;
                 while (status.ok()) {
                   float value = 1;
                   status = communicator.AllReduce(absl::MakeSpan(&value, 1));
                 }
                 EXPECT_EQ(communicator.collectives_done(), 1);
                 return status;
               }),
      Each(StatusIs(absl::StatusCode::kUnavailable)));
  doomed.join();
  EXPECT_LT(absl::Now() - start, kSoon);
}

TEST_P(CommunicatorTest, AnAbsentRankIsATimeOut) {
  if (MaxRanks() < 2) GTEST_SKIP() << "needs 2 ranks";
  const Gang gang = MakeGang(2, absl::Milliseconds(200));
  EXPECT_THAT(gang[0]->Barrier(),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_THAT(gang[1]->Barrier(), StatusIs(absl::StatusCode::kUnavailable));
}

TEST_P(CommunicatorTest, DifferentSizesEndWithAnError) {
  if (!GetParam().compares_sizes) GTEST_SKIP() << "compares no sizes";
  if (MaxRanks() < 3) GTEST_SKIP() << "needs 3 ranks";
  for (const auto& [small, large] :
       std::vector<std::pair<int, int>>{{7, 8}, {0, 1}, {1, 100000}}) {
    const Gang gang = MakeGang(3, absl::Milliseconds(300));
    const auto statuses = RunRanks(
        gang, [&, small = small, large = large](Communicator& communicator) {
          std::vector<float> values(communicator.rank() == 1 ? small : large);
          absl::Status status = communicator.AllReduce(absl::MakeSpan(values));
          // A rank with nothing to send need not wait for the others; the next
          // collective then reports the mismatch.
          return status.ok() ? communicator.Barrier() : status;
        });
    EXPECT_THAT(statuses, Each(EndsTheGang()));
  }
}

}  // namespace
}  // namespace comera::collective
