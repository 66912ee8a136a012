// Checks copies of training states in other workers' memory and in the store,
// and fetching them back.
#include <stdlib.h>

#include <filesystem>
#include <future>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/checkpoint/checkpoint_copier.h"
#include "worker/checkpoint/checkpoint_fetcher.h"
#include "worker/checkpoint/checkpoint_shelf.h"
#include "worker/checkpoint/peer_server.h"
#include "worker/checkpoint/replica_cache.h"
#include "worker/report/artifact_store.h"

namespace comera::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

MATCHER_P(IsOkAndHolds, inner, "") {
  return arg.ok() &&
         ::testing::ExplainMatchResult(inner, *arg, result_listener);
}

constexpr char kJob[] = "jobs/a";
constexpr absl::Duration kBound = absl::Seconds(20);

// Makes a file as the trainer writes it.
std::string State(const std::string& text) {
  return absl::StrCat(text, "\nsha256 ", Sha256Hex(text), "\n");
}

TEST(CheckpointNamesTest, OnlyTheTrainersNames) {
  const auto name = ParseCheckpointName("step-000000000120.snapshot");
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(name->step, 120);
  EXPECT_TRUE(name->snapshot);
  EXPECT_EQ(ToFileName({120, false}), "step-000000000120.checkpoint");
  for (const char* bad :
       {"", "step-1.checkpoint", "step-00000000012x.checkpoint",
        "step-000000000120.checkpoint.tmp.1", "step-0000000001200.snapshot"}) {
    EXPECT_FALSE(ParseCheckpointName(bad).has_value()) << bad;
  }
}

TEST(CheckpointNamesTest, EveryFlippedBitIsSeen) {
  const std::string whole = State("some state");
  EXPECT_TRUE(IsWhole(whole));
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] ^= 4;
    EXPECT_FALSE(IsWhole(damaged)) << i;
    EXPECT_FALSE(IsWhole(whole.substr(0, i))) << i;
  }
}

TEST(ReplicaCacheTest, KeepsTheNewestTwoOfAJob) {
  ReplicaCache cache(1000);
  for (int64_t step : {10, 20, 30}) {
    ASSERT_OK(cache.Put(kJob, {step, false}, "state"));
  }
  EXPECT_THAT(cache.List(kJob), SizeIs(2));
  EXPECT_EQ(cache.Get(kJob, 10), nullptr);
  EXPECT_EQ(*cache.Get(kJob, 30), "state");
  EXPECT_EQ(cache.bytes(), 10u);
  cache.Drop(kJob);
  EXPECT_EQ(cache.bytes(), 0u);
  EXPECT_THAT(cache.Jobs(), IsEmpty());
}

TEST(ReplicaCacheTest, OlderCopiesGiveWayNewestOnesDoNot) {
  ReplicaCache cache(100);
  ASSERT_OK(cache.Put("jobs/a", {1, false}, std::string(40, 'a')));
  ASSERT_OK(cache.Put("jobs/a", {2, false}, std::string(40, 'a')));
  ASSERT_OK(cache.Put("jobs/b", {1, false}, std::string(40, 'b')));
  EXPECT_EQ(cache.Get("jobs/a", 1), nullptr);
  EXPECT_NE(cache.Get("jobs/a", 2), nullptr);
  EXPECT_THAT(cache.Put("jobs/c", {1, false}, std::string(40, 'c')),
              StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_NE(cache.Get("jobs/b", 1), nullptr);
  EXPECT_LE(cache.bytes(), 100u);
}

class CopiesTest : public ::testing::Test {
 protected:
  CopiesTest() {
    keys_.Learn("key");
    auto server = PeerServer::Start({}, &cache_, &folders_, &keys_);
    EXPECT_OK(server);
    server_ = *std::move(server);
    store_ = OpenDirectoryStore(folder_ + "/store");
    client_ = std::make_unique<PeerClient>(nullptr, &keys_);
  }

  ~CopiesTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  static std::string MakeFolder() {
    std::string folder = ::testing::TempDir() + "/copies-XXXXXX";
    EXPECT_NE(mkdtemp(folder.data()), nullptr);
    return folder;
  }

  // The folder of the job's checkpoints on "this" machine.
  std::string Local() const { return folder_ + "/local/checkpoints"; }

  void Save(const std::string& folder, const CheckpointName& name,
            const std::string& contents) {
    ASSERT_OK(MakeDirectories(folder));
    ASSERT_OK(WriteFileAtomically(absl::StrCat(folder, "/", ToFileName(name)),
                                  contents));
  }

  FetchedCheckpoint Fetch() {
    v1::MemberAssignment assignment;
    assignment.set_job(kJob);
    v1::Peer* peer = assignment.add_sources();
    peer->set_worker("peer");
    peer->set_address(server_->address());
    peer = assignment.add_sources();
    peer->set_worker("gone");
    peer->set_address("127.0.0.1:1");
    return FetchNewestCheckpoint(assignment, Local(), kBound, memory_,
                                 client_.get(), store_.get());
  }

  const std::string folder_ = MakeFolder();
  PeerKeys keys_;
  // The cache of the peer, and that of this worker.
  ReplicaCache cache_{size_t{64} << 20};
  ReplicaCache memory_{size_t{64} << 20};
  JobFolders folders_{folder_ + "/peer"};
  std::unique_ptr<PeerServer> server_;
  std::unique_ptr<ArtifactStore> store_;
  std::unique_ptr<PeerClient> client_;
};

TEST_F(CopiesTest, ACopyComesBackWhole) {
  // Larger than one piece.
  const std::string state = State(std::string(3 << 20, 'w'));
  ASSERT_OK(client_->Put(server_->address(), kJob, {40, true}, state, kBound));
  ASSERT_OK_AND_ASSIGN(const auto names,
                       client_->List(server_->address(), kJob, kBound));
  ASSERT_THAT(names, SizeIs(1));
  EXPECT_TRUE(names[0].snapshot);
  ASSERT_OK_AND_ASSIGN(const std::string back,
                       client_->Get(server_->address(), kJob, 40, kBound));
  EXPECT_EQ(back, state);
  EXPECT_THAT(client_->Get(server_->address(), kJob, 41, kBound),
              StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(CopiesTest, StrangersAreRefused) {
  PeerKeys others;
  others.Learn("guess");
  PeerClient stranger(nullptr, &others);
  EXPECT_THAT(
      stranger.Put(server_->address(), kJob, {1, false}, State("x"), kBound),
      StatusIs(absl::StatusCode::kUnauthenticated));
  EXPECT_THAT(stranger.List(server_->address(), kJob, kBound),
              StatusIs(absl::StatusCode::kUnauthenticated));
  EXPECT_THAT(stranger.Get(server_->address(), kJob, 1, kBound),
              StatusIs(absl::StatusCode::kUnauthenticated));
  // A restarted coordinator gives out another key; the previous one is still
  // accepted.
  keys_.Learn("guess");
  EXPECT_OK(stranger.List(server_->address(), kJob, kBound));
  others.Learn("key");
  EXPECT_OK(stranger.List(server_->address(), kJob, kBound));
  keys_.Learn("third");
  EXPECT_THAT(stranger.List(server_->address(), kJob, kBound),
              StatusIs(absl::StatusCode::kUnauthenticated));
}

TEST_F(CopiesTest, MalformedCopiesAreRefused) {
  const std::string& address = server_->address();
  EXPECT_THAT(client_->Put(address, "../x", {1, false}, State("x"), kBound),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(client_->Put(address, kJob, {-1, false}, State("x"), kBound),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(client_->Put(address, kJob, {1, false}, "no state", kBound),
              StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(client_->List(address, "jobs/../..", kBound),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(cache_.Jobs(), IsEmpty());
}

TEST_F(CopiesTest, TheNewestWholeStateIsFetchedWhereverItLies) {
  EXPECT_EQ(Fetch().step, -1);
  Save(Local(), {10, false}, State("ten"));
  EXPECT_EQ(Fetch().from, "this disk");
  // On the other worker's disk, from a time when the job ran there.
  Save(folders_.Checkpoints(kJob), {20, false}, State("twenty"));
  EXPECT_EQ(Fetch().step, 20);
  ASSERT_OK(cache_.Put(kJob, {30, true}, State("thirty")));
  const FetchedCheckpoint fetched = Fetch();
  EXPECT_EQ(fetched.step, 30);
  EXPECT_EQ(fetched.from, "peer");
  EXPECT_THAT(ReadFile(Local() + "/step-000000000030.snapshot"),
              IsOkAndHolds(State("thirty")));
  ASSERT_OK(store_->Put("checkpoints/a/step-000000000040.checkpoint",
                        State("forty")));
  EXPECT_EQ(Fetch().from, "the store");
  EXPECT_EQ(Fetch().from, "this disk");  // by now
  ASSERT_OK(memory_.Put(kJob, {50, true}, State("fifty")));
  EXPECT_EQ(Fetch().from, "this memory");
}

TEST_F(CopiesTest, Complaint12_DamagedStatesArePassedOver) {
  Save(Local(), {50, false}, State("fifty") + "x");
  Save(folders_.Checkpoints(kJob), {40, false}, "junk");
  ASSERT_OK(store_->Put("checkpoints/a/step-000000000030.checkpoint", "junk"));
  ASSERT_OK(cache_.Put(kJob, {20, false}, State("twenty")));
  EXPECT_EQ(Fetch().step, 20);
}

TEST_F(CopiesTest, WhatIsSavedIsCopiedAndMadeDurable) {
  std::promise<int64_t> durable;
  CheckpointCopier copier({}, client_.get(), store_.get(),
                          [&](const CheckpointCopier::Task& task) {
                            if (task.name.step == 30) durable.set_value(30);
                          });
  for (int64_t step : {10, 20, 30}) {
    Save(Local(), {step, false}, State(absl::StrCat(step)));
    CheckpointCopier::Task task;
    task.job = kJob;
    task.name = {step, false};
    task.path = absl::StrCat(Local(), "/", ToFileName(task.name));
    // A worker that does not exist delays nothing.
    task.replicas = {"127.0.0.1:1", server_->address()};
    task.durable = true;
    copier.Add(task);
    ASSERT_TRUE(copier.Flush(kBound));
  }
  EXPECT_EQ(durable.get_future().get(), 30);
  EXPECT_NE(cache_.Get(kJob, 30), nullptr);
  EXPECT_THAT(store_->List("checkpoints/a"),
              IsOkAndHolds(ElementsAre("step-000000000020.checkpoint",
                                       "step-000000000030.checkpoint")));
}

TEST_F(CopiesTest, TheShelfTellsWhatIsWhere) {
  Save(folders_.Checkpoints(kJob), {10, false}, State("ten"));
  ASSERT_OK(MakeDirectories(folders_.Work("jobs/b")));
  ASSERT_OK(cache_.Put("jobs/c", {20, true}, State("twenty")));
  CheckpointShelf shelf(&folders_, &cache_);
  shelf.ScanAll();
  shelf.MarkStored(kJob, 10, 2);
  v1::SynchronizeRequest request;
  shelf.Fill(request.mutable_checkpoints());
  std::vector<std::string> told;
  for (const v1::HeldCheckpoint& held : request.checkpoints()) {
    told.push_back(absl::StrCat(held.job(), " ", held.step(), " ",
                                v1::HeldCheckpoint::Place_Name(held.place())));
  }
  EXPECT_THAT(told, ::testing::UnorderedElementsAre(
                        "jobs/a 10 DISK", "jobs/a 10 DURABLE",
                        "jobs/b 0 PLACE_UNSPECIFIED", "jobs/c 20 MEMORY"));
}

TEST_F(CopiesTest, TheStoreHoldsWhatItWasGivenOrSaysSo) {
  ASSERT_OK(store_->Put("checkpoints/a/one", "contents"));
  EXPECT_THAT(store_->Get("checkpoints/a/one"), IsOkAndHolds("contents"));
  EXPECT_THAT(store_->Get("checkpoints/a/two"),
              StatusIs(absl::StatusCode::kNotFound));
  for (const char* name :
       {"", "/etc/passwd", "../x", "a/../b", "a//b", ".x", "a b", "a/\n"}) {
    EXPECT_THAT(store_->Put(name, "x"),
                StatusIs(absl::StatusCode::kInvalidArgument))
        << name;
  }
  const std::string path = folder_ + "/store/checkpoints/a/one";
  ASSERT_OK_AND_ASSIGN(std::string file, ReadFile(path));
  file[2] ^= 1;
  ASSERT_OK(WriteFileAtomically(path, file));
  EXPECT_THAT(store_->Get("checkpoints/a/one"),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("checksum")));
  ASSERT_OK(store_->Put("checkpoints/b/old", "x"));
  std::filesystem::last_write_time(
      folder_ + "/store/checkpoints/b/old",
      std::filesystem::file_time_type::clock::now() - std::chrono::hours(2));
  ASSERT_OK(store_->Expire("checkpoints", absl::Hours(1)));
  EXPECT_THAT(store_->List("checkpoints/b"), IsOkAndHolds(IsEmpty()));
  EXPECT_THAT(store_->List("checkpoints/a"), IsOkAndHolds(SizeIs(1)));
  EXPECT_OK(store_->Delete("checkpoints/a/one"));
  EXPECT_OK(store_->Delete("checkpoints/a/one"));
}

}  // namespace
}  // namespace comera::worker
