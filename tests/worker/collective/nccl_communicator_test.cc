// What is NCCL's own in its communicator; the rest is in the conformance suite.
#include "worker/collective/nccl_communicator.h"

#include <cmath>
#include <cstring>
#include <future>
#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "common/status_macros.h"
#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "tests/worker/collective/nccl_gang.h"

namespace comera::collective {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

absl::Status Sum(NcclRank& rank, std::vector<float>& values,
                 size_t exact_tail = 0) {
  RETURN_IF_ERROR(rank.communicator->EnqueueAllReduce(absl::MakeSpan(values),
                                                      exact_tail));
  return rank.communicator->JoinAllReduces();
}

TEST(NcclCommunicatorTest, AGangOfOneWorksTheSame) {
  NcclGang gang(1);
  gang.Create();
  NcclRank& rank = gang.ranks[0];
  ASSERT_OK(rank.status);
  EXPECT_TRUE(rank.communicator->on_device());
  std::vector<float> values = {1, 2, 3};
  EXPECT_OK(rank.communicator->AllReduce(absl::MakeSpan(values)));
  EXPECT_OK(Sum(rank, values));
  EXPECT_OK(rank.communicator->Barrier());
  EXPECT_EQ(values, (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(rank.communicator->collectives_done(), 3);
  rank.communicator->Abort();
  EXPECT_THAT(Sum(rank, values), StatusIs(absl::StatusCode::kAborted));
}

TEST(NcclCommunicatorTest, RefusesBadOptions) {
  const NcclGang gang(2);
  const auto refused = [&](const std::function<void(NcclOptions&)>& spoil) {
    NcclOptions options = gang.ranks[0].options;
    spoil(options);
    auto folder = FileRendezvous::Open(gang.folder);
    EXPECT_THAT(CreateNcclCommunicator(
                    options, std::make_shared<FileRendezvous>(*folder)),
                StatusIs(absl::StatusCode::kInvalidArgument));
  };
  refused([](NcclOptions& o) { o.rank = 2; });
  refused([](NcclOptions& o) { o.rank = -1; });
  refused([](NcclOptions& o) { o.world_size = 0; });
  refused([](NcclOptions& o) { o.timeout = absl::ZeroDuration(); });
  refused([](NcclOptions& o) { o.connect_timeout = absl::ZeroDuration(); });
  refused([](NcclOptions& o) { o.api = nullptr; });
  EXPECT_THAT(CreateNcclCommunicator(gang.ranks[0].options, nullptr),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(NcclCommunicatorTest, ARankThatDoesNotAppearIsATimeOut) {
  NcclGang gang(2);
  gang.ForEach(
      [](NcclOptions& o) { o.connect_timeout = absl::Milliseconds(50); });
  gang.Create(1);  // nobody writes the id
  EXPECT_THAT(
      gang.ranks[1].status,
      StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("nccl-id")));
  NcclGang other(2);
  other.ForEach(
      [](NcclOptions& o) { o.connect_timeout = absl::Milliseconds(50); });
  other.Create(0);
  EXPECT_THAT(
      other.ranks[0].status,
      StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("2 ranks")));
}

TEST(NcclCommunicatorTest, AnInitialisationThatHangsIsATimeOut) {
  NcclGang gang(2);
  gang.ForEach(
      [](NcclOptions& o) { o.connect_timeout = absl::Milliseconds(50); });
  FakeNccl::Faults faults;
  faults.init_hangs = true;
  for (NcclRank& rank : gang.ranks) rank.api->Set(faults);
  gang.Create();
  // The slower one may find the other's note.
  for (NcclRank& rank : gang.ranks) {
    EXPECT_TRUE(absl::IsDeadlineExceeded(rank.status) ||
                absl::IsUnavailable(rank.status))
        << rank.status;
  }
}

TEST(NcclCommunicatorTest, ARankThatCannotJoinEndsTheOthersAtOnce) {
  NcclGang gang(3);
  FakeNccl::Faults faults;
  faults.results["ncclCommInitRankConfig"] = NcclResult::kInvalidUsage;
  gang.ranks[1].api->Set(faults);
  const absl::Time start = absl::Now();
  gang.Create();
  EXPECT_LT(absl::Now() - start, absl::Seconds(20));
  EXPECT_THAT(
      gang.ranks[1].status,
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("ncclCommInitRankConfig: ncclInvalidUsage (5)")));
  for (int i : {0, 2}) {
    EXPECT_THAT(gang.ranks[i].status,
                StatusIs(absl::StatusCode::kUnavailable,
                         HasSubstr("rank 1 failed (ncclCommInit")));
  }
}

TEST(NcclCommunicatorTest, JunkInTheRendezvousIsAnError) {
  NcclGang gang(2);
  auto rendezvous = FileRendezvous::Open(gang.folder);
  ASSERT_OK(rendezvous->Set("nccl-id", "junk"));
  gang.Create(1);
  EXPECT_THAT(gang.ranks[1].status, StatusIs(absl::StatusCode::kInvalidArgument,
                                             HasSubstr("4 bytes")));
}

TEST(NcclCommunicatorTest, AnUnreadableNoteEndsTheGang) {
  NcclGang gang(2);
  gang.Create();
  auto rendezvous = FileRendezvous::Open(gang.folder);
  ASSERT_OK(rendezvous->Set("nccl-end", "no note\xff"));
  EXPECT_THAT(gang.ranks[0].communicator->Barrier(),
              StatusIs(absl::StatusCode::kUnavailable));
}

TEST(NcclCommunicatorTest, AnErrorInTheMiddleOfACollective) {
  const std::vector<std::pair<NcclResult, absl::StatusCode>> cases = {
      {NcclResult::kRemoteError, absl::StatusCode::kUnavailable},
      {NcclResult::kSystemError, absl::StatusCode::kUnavailable},
      {NcclResult::kUnhandledCudaError, absl::StatusCode::kInternal},
      {NcclResult::kInternalError, absl::StatusCode::kInternal}};
  for (const auto& [result, code] : cases) {
    NcclGang gang(2);
    gang.Create();
    std::promise<void> begun;
    absl::Status status;
    std::thread waiter([&] {
      begun.set_value();
      status = gang.ranks[0].communicator->Barrier();
    });
    begun.get_future().wait();
    FakeNccl::Faults faults;
    faults.async_error = result;
    gang.ranks[0].api->Set(faults);
    waiter.join();
    EXPECT_THAT(status, StatusIs(code, HasSubstr("as the test wanted")));
    // The first error stays.
    gang.ranks[0].api->Set({});
    EXPECT_EQ(gang.ranks[0].communicator->Barrier(), status);
    EXPECT_THAT(
        gang.ranks[1].communicator->Barrier(),
        StatusIs(absl::StatusCode::kUnavailable, HasSubstr("rank 0 failed")));
  }
}

TEST(NcclCommunicatorTest, ACallThatIsRefusedBreaksTheCommunicator) {
  NcclGang gang(1);
  gang.Create();
  FakeNccl::Faults faults;
  faults.results["ncclBroadcast"] = NcclResult::kInvalidArgument;
  gang.ranks[0].api->Set(faults);
  char byte = 0;
  const absl::Status status =
      gang.ranks[0].communicator->Broadcast(absl::MakeSpan(&byte, 1), 0);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument,
                               HasSubstr("ncclBroadcast")));
  EXPECT_EQ(gang.ranks[0].communicator->Barrier(), status);
  EXPECT_EQ(gang.ranks[0].communicator->collectives_done(), 0);
}

TEST(NcclCommunicatorTest, CollectivesAndCallsThatHangAreTimeOuts) {
  FakeNccl::Faults enqueued, called;
  enqueued.collectives_hang = true;
  called.calls_hang = true;
  for (const FakeNccl::Faults& faults : {enqueued, called}) {
    NcclGang gang(1);
    gang.ForEach([](NcclOptions& o) { o.timeout = absl::Milliseconds(60); });
    gang.Create();
    ASSERT_OK(gang.ranks[0].communicator->Barrier());
    gang.ranks[0].api->Set(faults);
    EXPECT_THAT(gang.ranks[0].communicator->Barrier(),
                StatusIs(absl::StatusCode::kDeadlineExceeded,
                         HasSubstr("within 60ms")));
  }
}

TEST(NcclCommunicatorTest, TheDeviceNeverWaitsForEver) {
  NcclGang gang(2);
  gang.ForEach([](NcclOptions& o) { o.timeout = absl::Milliseconds(60); });
  gang.Create();
  std::vector<float> values(10);
  ASSERT_OK(Sum(gang.ranks[0], values));  // member 1 never comes
  gang.ranks[0].backend().Synchronize();
  EXPECT_THAT(
      Sum(gang.ranks[0], values),
      StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("collective 1")));
  EXPECT_EQ(gang.ranks[0].communicator->collectives_done(), 0);
}

TEST(NcclCommunicatorTest, AbortFreesTheDevice) {
  NcclGang gang(2);
  gang.Create();
  std::vector<float> values(10);
  ASSERT_OK(Sum(gang.ranks[0], values));
  gang.ranks[0].communicator->Abort();
  gang.ranks[0].backend().Synchronize();
  EXPECT_THAT(Sum(gang.ranks[0], values), StatusIs(absl::StatusCode::kAborted));
}

TEST(NcclCommunicatorTest, CudaErrorsAreNotWaitedFor) {
  FakeNccl::Faults faults;
  for (const char* call : {"cudaMalloc", "cudaEventCreate"}) {
    NcclGang gang(1);
    faults.cuda = {{call, absl::ResourceExhaustedError(call)}};
    gang.ranks[0].api->Set(faults);
    gang.Create();
    EXPECT_THAT(gang.ranks[0].status,
                StatusIs(absl::StatusCode::kResourceExhausted));
  }
  NcclGang gang(1);
  gang.Create();
  faults.cuda = {{"cudaEventQuery", absl::InternalError("sticky")}};
  gang.ranks[0].api->Set(faults);
  EXPECT_THAT(gang.ranks[0].communicator->Barrier(),
              StatusIs(absl::StatusCode::kInternal, "sticky"));
}

TEST(NcclCommunicatorTest, DeviceSumsAreOrderedWithTheBackendsWork) {
  constexpr int kRanks = 3, kRounds = 100;
  NcclGang gang(kRanks);
  gang.Create();
  std::vector<std::vector<float>> values(kRanks, std::vector<float>(1000, 0));
  const auto body = [&](int i) -> absl::Status {
    NcclRank& rank = gang.ranks[i];
    for (int round = 0; round < kRounds; ++round) {
      rank.backend().Enqueue([&, i] {
        for (float& v : values[i]) v = std::fmod(v, 17) + i;
      });
      RETURN_IF_ERROR(Sum(rank, values[i]));
    }
    // A collective of the host comes after all of them.
    RETURN_IF_ERROR(rank.communicator->Barrier());
    EXPECT_EQ(rank.communicator->collectives_done(), kRounds + 1);
    return absl::OkStatus();
  };
  EXPECT_THAT(gang.Run(body), Each(IsOk()));
  float expected = 0;
  for (int round = 0; round < kRounds; ++round) {
    expected = 3 * std::fmod(expected, 17) + 0 + 1 + 2;
  }
  for (const auto& rank : values) EXPECT_THAT(rank, Each(expected));
}

TEST(NcclCommunicatorTest, TheBackendComputesWhileASumIsOnItsWay) {
  std::vector<float> first(10, 1), second(10, 2);
  absl::Notification computed;
  NcclGang gang(2);
  gang.Create();
  const auto sum = [&](int i, std::vector<float>& values) {
    return gang.ranks[i].communicator->EnqueueAllReduce(
        absl::MakeSpan(values), /*exact_tail=*/0);
  };
  NcclRank& rank = gang.ranks[0];
  ASSERT_OK(sum(0, first));
  rank.backend().Enqueue([&] { computed.Notify(); });
  // The other member has not come yet.
  ASSERT_TRUE(computed.WaitForNotificationWithTimeout(absl::Seconds(30)));
  ASSERT_OK(sum(0, second));
  ASSERT_OK(rank.communicator->JoinAllReduces());
  std::vector<float> seen;
  rank.backend().Enqueue([&] { seen = {first[0], second[9]}; });
  std::vector<float> other_first(10, 3), other_second(10, 4);
  ASSERT_OK(sum(1, other_first));
  ASSERT_OK(sum(1, other_second));
  ASSERT_OK(gang.ranks[1].communicator->JoinAllReduces());
  rank.backend().Synchronize();
  gang.ranks[1].backend().Synchronize();
  EXPECT_EQ(seen, (std::vector<float>{4, 6}));
}

TEST(NcclCommunicatorTest, WithoutASumThereIsNothingToJoin) {
  NcclGang gang(1);
  gang.Create();
  NcclRank& rank = gang.ranks[0];
  EXPECT_OK(rank.communicator->JoinAllReduces());
  rank.communicator->Abort();
  EXPECT_THAT(rank.communicator->Barrier(),
              StatusIs(absl::StatusCode::kAborted));
  EXPECT_THAT(rank.communicator->JoinAllReduces(),
              StatusIs(absl::StatusCode::kAborted));
}

TEST(NcclCommunicatorTest, RecordedSumsRunWithTheirGraph) {
  NcclGang gang(2);
  gang.Create();
  std::vector<std::vector<float>> values(2, std::vector<float>(10, 1));
  const auto body = [&](int i) -> absl::Status {
    NcclRank& rank = gang.ranks[i];
    auto graph = std::make_shared<FakeGraph>();
    rank.backend().BeginCapture(graph);
    absl::Status recorded = Sum(rank, values[i]);
    rank.backend().Enqueue([&, i] { ++values[i][0]; });
    rank.backend().EndCapture();
    RETURN_IF_ERROR(recorded);
    EXPECT_EQ(graph->work.size(), 2u);
    for (int replay = 0; replay < 3; ++replay) {
      rank.backend().Enqueue([graph] {
        for (const auto& work : graph->work) work();
      });
      RETURN_IF_ERROR(rank.communicator->Replayed(1));
    }
    rank.backend().Synchronize();
    return rank.communicator->Barrier();
  };
  EXPECT_THAT(gang.Run(body), Each(IsOk()));
  for (int i : {0, 1}) {
    EXPECT_EQ(gang.ranks[i].communicator->collectives_done(), 4);
    EXPECT_EQ(values[i][0], 15);  // 2+1, 6+1, 14+1
    EXPECT_EQ(values[i][9], 8);
  }
}

TEST(NcclCommunicatorTest, WhatCannotBeRecordedCanBeEnqueued) {
  NcclGang gang(1);
  gang.Create();
  NcclRank& rank = gang.ranks[0];
  std::vector<float> values(10);
  FakeNccl::Faults faults;
  faults.results["ncclAllReduce"] = NcclResult::kInvalidUsage;
  rank.api->Set(faults);
  rank.backend().BeginCapture(std::make_shared<FakeGraph>());
  EXPECT_THAT(Sum(rank, values), StatusIs(absl::StatusCode::kInvalidArgument));
  rank.backend().EndCapture();
  rank.api->Set({});
  EXPECT_OK(Sum(rank, values));
  EXPECT_OK(rank.communicator->Barrier());
}

TEST(NcclCommunicatorTest, AReplayIsWatched) {
  NcclGang gang(2);
  gang.ForEach([](NcclOptions& o) { o.timeout = absl::Milliseconds(60); });
  gang.Create();
  NcclRank& rank = gang.ranks[0];
  std::vector<float> values(10);
  auto graph = std::make_shared<FakeGraph>();
  rank.backend().BeginCapture(graph);
  ASSERT_OK(Sum(rank, values));
  rank.backend().EndCapture();
  rank.backend().Enqueue([graph] { graph->work[0](); });
  ASSERT_OK(rank.communicator->Replayed(1));
  rank.backend().Synchronize();
  EXPECT_THAT(rank.communicator->Replayed(1),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
}

TEST(NcclCommunicatorTest, ItEndsWithoutWaitingForItsGraphs) {
  NcclGang gang(2);
  gang.Create();
  NcclRank& rank = gang.ranks[0];
  std::vector<float> values(10);
  auto graph = std::make_shared<FakeGraph>();
  rank.backend().BeginCapture(graph);
  ASSERT_OK(Sum(rank, values));
  rank.backend().EndCapture();
  rank.backend().Enqueue([graph] { graph->work[0](); });
  ASSERT_OK(rank.communicator->Replayed(1));
  rank.communicator->Abort();
  rank.backend().Synchronize();
  EXPECT_THAT(rank.communicator->Replayed(0),
              StatusIs(absl::StatusCode::kAborted));
}

TEST(NcclCommunicatorTest, CompressedSumsKeepTheirBound) {
  constexpr int kRanks = 4, kCount = 5000, kTail = 4;
  NcclGang gang(kRanks);
  gang.ForEach([](NcclOptions& o) { o.compress = true; });
  gang.Create();
  std::vector<std::vector<float>> values(kRanks);
  std::vector<double> sums(kCount), magnitudes(kCount);
  for (int i = 0; i < kRanks; ++i) {
    for (int j = 0; j < kCount; ++j) {
      values[i].push_back(std::sin(1 + j * 0.37f + i * 1.7f) *
                          std::pow(2.0f, j % 40 - 20));
      sums[j] += values[i][j];
      magnitudes[j] += std::abs(values[i][j]);
    }
  }
  const auto body = [&](int i) -> absl::Status {
    RETURN_IF_ERROR(Sum(gang.ranks[i], values[i], kTail));
    gang.ranks[i].backend().Synchronize();
    return absl::OkStatus();
  };
  EXPECT_THAT(gang.Run(body), Each(IsOk()));
  int rounded = 0;
  for (int j = 0; j < kCount; ++j) {
    const double error = std::abs(values[0][j] - sums[j]);
    const double bound = j < kCount - kTail ? kRanks / 256.0 : 1e-6;
    EXPECT_LE(error, bound * magnitudes[j]) << j;
    rounded += error > 1e-6 * magnitudes[j];
  }
  EXPECT_GT(rounded, kCount / 2) << "nothing was compressed";
  for (const auto& rank : values) {
    EXPECT_EQ(
        std::memcmp(rank.data(), values[0].data(), kCount * sizeof(float)), 0);
  }
}

TEST(NcclCommunicatorTest, ALargerCompressedSumWaitsForNoOther) {
  std::vector<float> small[2], large[2];
  NcclGang gang(2);
  gang.ForEach([](NcclOptions& o) { o.compress = true; });
  gang.Create();
  // The other member comes when both sums of this one are enqueued.
  for (int i = 0; i < 2; ++i) {
    small[i].assign(10, 1 + i);
    large[i].assign(5000, 3 + i);
    for (std::vector<float>* values : {&small[i], &large[i]}) {
      ASSERT_OK(gang.ranks[i].communicator->EnqueueAllReduce(
          absl::MakeSpan(*values), /*exact_tail=*/0));
    }
    ASSERT_OK(gang.ranks[i].communicator->JoinAllReduces());
  }
  for (NcclRank& rank : gang.ranks) rank.backend().Synchronize();
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(small[i], Each(3));
    EXPECT_THAT(large[i], Each(7));
  }
}

TEST(NcclCommunicatorTest, AGraphKeepsItsCompressedBuffer) {
  std::vector<float> small(10, 1), large(5000, 2);
  NcclGang gang(1);
  gang.ForEach([](NcclOptions& o) { o.compress = true; });
  gang.Create();
  NcclRank& rank = gang.ranks[0];
  ASSERT_OK(Sum(rank, small));
  const auto graph = std::make_shared<FakeGraph>();
  rank.backend().BeginCapture(graph);
  ASSERT_OK(Sum(rank, small));
  rank.backend().EndCapture();
  ASSERT_OK(Sum(rank, large));
  rank.backend().Enqueue([graph] {
    for (const auto& work : graph->work) work();
  });
  rank.backend().Synchronize();
  EXPECT_THAT(small, Each(1));
}

TEST(NcclCommunicatorTest, ACompressedBufferDoesNotGrowInAGraph) {
  std::vector<float> values(10);  // outlives the stream that sums it
  NcclGang gang(1);
  gang.ForEach([](NcclOptions& o) { o.compress = true; });
  gang.Create();
  NcclRank& rank = gang.ranks[0];
  rank.backend().BeginCapture(std::make_shared<FakeGraph>());
  EXPECT_THAT(Sum(rank, values),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  rank.backend().EndCapture();
  ASSERT_OK(Sum(rank, values));
  rank.backend().BeginCapture(std::make_shared<FakeGraph>());
  EXPECT_OK(Sum(rank, values)) << "now there is room";
  rank.backend().EndCapture();
}

TEST(NcclCommunicatorTest, HostValuesOfManyPieces) {
  constexpr int kRanks = 2;
  constexpr size_t kBytes = (9 << 20) + 3;
  NcclGang gang(kRanks);
  gang.Create();
  std::string sent(kBytes, '\0');
  for (size_t i = 0; i < kBytes; ++i) sent[i] = static_cast<char>(i * i >> 7);
  const auto body = [&](int i) -> absl::Status {
    std::string got = i == 1 ? sent : std::string(kBytes, '-');
    RETURN_IF_ERROR(
        gang.ranks[i].communicator->Broadcast(absl::MakeSpan(got), 1));
    EXPECT_TRUE(got == sent);
    std::vector<float> values(kBytes / 4, 3.0f);
    RETURN_IF_ERROR(
        gang.ranks[i].communicator->AllReduce(absl::MakeSpan(values)));
    EXPECT_THAT(values, Each(6.0f));
    EXPECT_EQ(gang.ranks[i].communicator->collectives_done(), 2);
    return absl::OkStatus();
  };
  EXPECT_THAT(gang.Run(body), Each(IsOk()));
}

}  // namespace
}  // namespace comera::collective
