// Whether members meet over TLS: those of several machines with the key of
// their attempt, those of one machine in plain text over loopback.
#include "worker/trainer/main/form_gang.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/conformance/communicator/gang.h"
#include "worker/collective/communicator.h"
#include "worker/collective/gloo_communicator.h"
#include "worker/collective/gloo_tls.h"
#include "worker/collective/rendezvous.h"

namespace comera::trainer {
namespace {

using collective::Communicator;
using collective::FileRendezvous;
using collective::GangTls;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr absl::Duration kBound = absl::Seconds(20);
constexpr char kGangKey[] = "gang-key";
// The address of the trainer's member, as its task has it where the gang is on
// several machines. Gloo lets the end with the higher address connect, so the
// other member comes from both sides of it.
constexpr char kHost[] = "127.0.0.5";
constexpr const char* kOtherHosts[] = {"127.0.0.1", "127.0.0.9"};

// A gang of two. One is the trainer's, the test plays the other: as the trainer
// would be, or as a stranger.
class Meeting {
 public:
  struct Formed {
    absl::Status status;
    std::unique_ptr<Communicator> gang;
  };

  Meeting()
      : folder_(collective::NewFolder()),
        rendezvous_(*FileRendezvous::Open(folder_)),
        backend_(kernels::CreateCpuBackend({})) {}

  FileRendezvous& rendezvous() { return rendezvous_; }
  void Stop() { stop_ = true; }

  TrainerTask Task(int rank, const std::string& host) const {
    TrainerTask task;
    task.set_rank(rank);
    task.set_world_size(2);
    task.set_rendezvous_dir(folder_);
    task.set_host(host);
    return task;
  }

  // The trainer's member forms its gang and meets the other one once.
  std::future<Formed> Form(const TrainerTask& task,
                           int64_t bucket_mib = kUsualBucketMib) {
    return std::async(std::launch::async, [this, task, bucket_mib]() -> Formed {
      auto gang = FormGang(task, *backend_, bucket_mib, stop_);
      if (!gang.ok()) return {gang.status(), nullptr};
      const absl::Status met = (*gang)->Barrier();
      return {met, *std::move(gang)};
    });
  }

  // Says for member `rank` what all say first: that it is there, and runs this
  // version.
  void SayHere(int rank) {
    const auto version =
        rendezvous_.Get("here-" + std::to_string(1 - rank), kBound);
    ASSERT_OK(version);
    ASSERT_OK(rendezvous_.Set("here-" + std::to_string(rank), *version));
  }

  // Nothing, and the test fails: there is none, so that members meet in plain
  // text.
  std::optional<GangTls> AwaitKey() {
    const auto key = rendezvous_.Get(kGangKey, kBound);
    EXPECT_OK(key);
    if (!key.ok()) return std::nullopt;
    return GangTls{*key};
  }

  // Connects as member 1 with this key, or in plain text.
  absl::Status Join(const std::string& host, std::optional<GangTls> tls) {
    collective::GlooOptions options;
    options.rank = 1;
    options.world_size = 2;
    options.host = host;
    options.tls = std::move(tls);
    options.timeout = options.connect_timeout = kBound;
    auto gang = collective::CreateGlooCommunicator(options, &rendezvous_);
    if (!gang.ok()) return gang.status();
    return (*gang)->Barrier();
  }

 private:
  const std::string folder_;
  FileRendezvous rendezvous_;
  const std::unique_ptr<kernels::Backend> backend_;
  std::atomic<bool> stop_{false};
};

TEST(FormGangTest, AcrossMachinesNobodyJoinsInPlainText) {
  for (const char* other : kOtherHosts) {
    Meeting meeting;
    auto member = meeting.Form(meeting.Task(0, kHost));
    meeting.SayHere(1);
    // Whatever the stranger thinks: the member does not train with it.
    (void)meeting.Join(other, std::nullopt);
    EXPECT_THAT(member.get().status, StatusIs(absl::StatusCode::kUnavailable));
  }
}

TEST(FormGangTest, AcrossMachinesMembersMeetWithTheKeyOfTheirAttempt) {
  for (const char* other : kOtherHosts) {
    Meeting meeting;
    auto member = meeting.Form(meeting.Task(0, kHost));
    meeting.SayHere(1);
    // The connections have that key, and not only the rendezvous.
    EXPECT_OK(meeting.Join(other, meeting.AwaitKey()));
    EXPECT_OK(member.get().status);
  }
}

TEST(FormGangTest, AcrossMachinesNobodyJoinsWithAnotherKey) {
  for (const char* other : kOtherHosts) {
    Meeting meeting;
    auto member = meeting.Form(meeting.Task(0, kHost));
    meeting.SayHere(1);
    std::optional<GangTls> tls = meeting.AwaitKey();
    if (tls) tls->key[0] ^= 1;
    EXPECT_THAT(meeting.Join(other, tls),
                StatusIs(absl::StatusCode::kUnavailable));
    EXPECT_THAT(member.get().status, StatusIs(absl::StatusCode::kUnavailable));
  }
}

TEST(FormGangTest, EachAttemptHasAKeyOfItsOwnFromMember0) {
  Meeting meeting;
  auto first = meeting.Form(meeting.Task(0, kHost));
  auto second = meeting.Form(meeting.Task(1, kOtherHosts[0]));
  EXPECT_OK(first.get().status);
  EXPECT_OK(second.get().status);
  Meeting next;
  auto member = next.Form(next.Task(0, kHost));
  next.SayHere(1);
  // The key of an attempt that has ended is worth nothing.
  EXPECT_THAT(next.Join(kOtherHosts[0], meeting.AwaitKey()),
              StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(member.get().status, StatusIs(absl::StatusCode::kUnavailable));
}

TEST(FormGangTest, AKeyOfAnotherLengthIsNone) {
  Meeting meeting;
  ASSERT_OK(meeting.rendezvous().Set(kGangKey, "short"));
  auto member = meeting.Form(meeting.Task(1, kHost));
  meeting.SayHere(0);
  EXPECT_THAT(member.get().status,
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("5 bytes, not the 32 of a key")));
}

// The other member came and ended before it told its address: without the stop
// this one would wait for two minutes.
TEST(FormGangTest, AStopEndsTheWaitForTheAddressOfAMemberThatEnded) {
  for (const char* host : {"", kHost}) {
    SCOPED_TRACE(host);
    Meeting meeting;
    auto member = meeting.Form(meeting.Task(0, host));
    meeting.SayHere(1);
    ASSERT_OK(meeting.rendezvous().Get("gloo-rank_0", kBound));
    meeting.Stop();
    ASSERT_EQ(member.wait_for(std::chrono::seconds(30)),
              std::future_status::ready);
    EXPECT_THAT(member.get().status, StatusIs(absl::StatusCode::kCancelled));
  }
}

TEST(FormGangTest, MembersWithOtherBucketsOrOfAnotherVersionAreRefusedByName) {
  Meeting meeting;
  auto first = meeting.Form(meeting.Task(0, ""), /*bucket_mib=*/0);
  auto second = meeting.Form(meeting.Task(1, ""));
  EXPECT_THAT(first.get().status,
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("member 1 was started with another "
                                 "--bucket_mib than this one (0)")));
  EXPECT_THAT(second.get().status,
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("member 0 was started with another "
                                 "--bucket_mib than this one (32)")));

  for (const char* greeting : {"4", "4 --bucket_mib=16"}) {
    Meeting older;
    ASSERT_OK(older.rendezvous().Set("here-1", greeting));
    EXPECT_THAT(
        older.Form(older.Task(0, "")).get().status,
        StatusIs(absl::StatusCode::kUnavailable,
                 HasSubstr("member 1 runs another version of comera-trainer "
                           "(gangs of 4, here of ")));
  }
}

TEST(FormGangTest, MembersWithTheSameBucketsMeet) {
  Meeting meeting;
  auto first = meeting.Form(meeting.Task(0, ""), /*bucket_mib=*/64);
  auto second = meeting.Form(meeting.Task(1, ""), /*bucket_mib=*/64);
  EXPECT_OK(first.get().status);
  EXPECT_OK(second.get().status);
}

TEST(FormGangTest, OnOneMachineMembersMeetInPlainText) {
  Meeting meeting;
  auto member = meeting.Form(meeting.Task(0, ""));
  meeting.SayHere(1);
  EXPECT_OK(meeting.Join("127.0.0.1", std::nullopt));
  EXPECT_OK(member.get().status);
  EXPECT_THAT(*meeting.rendezvous().Keys(), Not(Contains(kGangKey)));
}

// NCCL asks for no proof, so its members give it before NCCL has its id.
TEST(FormGangTest, OnGpusAcrossMachinesNobodyReachesNcclInPlainText) {
  Meeting meeting;
  TrainerTask task = meeting.Task(0, kHost);
  task.set_device(v1::ResourceSpec::GPU);
  auto member = meeting.Form(task);
  meeting.SayHere(1);
  // A build without CUDA would fail in another way if it came to NCCL.
  (void)meeting.Join(kOtherHosts[0], std::nullopt);
  EXPECT_THAT(member.get().status, StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(*meeting.rendezvous().Keys(), Not(Contains(HasSubstr("nccl"))));
}

}  // namespace
}  // namespace comera::trainer
