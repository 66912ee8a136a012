// Checks that training states are copied to other workers and to the store,
// what the store holds, and what the coordinator hears of all that.
#include <chrono>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "comera/v1/worker_service.pb.h"
#include "common/files.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/session/checkpoint_copies_fixture.h"
#include "worker/checkpoint/checkpoint_copier.h"
#include "worker/checkpoint/checkpoint_shelf.h"
#include "worker/checkpoint/peer_server.h"
#include "worker/checkpoint/replica_cache.h"
#include "worker/checkpoint/stored_checkpoints.h"
#include "worker/files/path_below.h"
#include "worker/report/artifact_store.h"
#include "worker/trainer/state/checkpoint_name.h"

namespace comera::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class CopierTest : public CopiesTest {
 protected:
  CheckpointCopier::Task TaskOf(const CheckpointName& name,
                                const std::string& contents) {
    Save(Local(), name, contents);
    CheckpointCopier::Task task;
    task.job = kJob;
    task.name = name;
    task.path =
        PathBelow{folder_ + "/local", "checkpoints"}.Child(ToFileName(name));
    return task;
  }
};

TEST_F(CopierTest, WhatIsSavedIsCopiedAndMadeDurable) {
  std::promise<int64_t> durable;
  CheckpointCopier::Options options;
  options.on_stored = [&](const std::string&, const StateKey& key) {
    if (key.step == 30) durable.set_value(30);
  };
  CheckpointCopier copier(options, client_.get(), store_.get());
  for (int64_t step : {10, 20, 30}) {
    CheckpointCopier::Task task =
        TaskOf({step, false, 1}, State(absl::StrCat(step)));
    // A worker that does not exist delays nothing.
    task.replicas = {Peer("gone", "127.0.0.1:1"),
                     Peer("peer", server_->address())};
    task.durable = true;
    copier.Add(task);
    ASSERT_TRUE(copier.Flush(kBound));
  }
  EXPECT_EQ(durable.get_future().get(), 30);
  EXPECT_NE(cache_.Get(kJob, {1, 30}), nullptr);
  EXPECT_THAT(
      ListStore("checkpoints/a"),
      IsOkAndHolds(ElementsAre("step-000000000010.attempt-1.checkpoint",
                               "step-000000000020.attempt-1.checkpoint",
                               "step-000000000030.attempt-1.checkpoint")));
  EXPECT_THAT(FromStore("checkpoints/a/step-000000000030.attempt-1.checkpoint"),
              IsOkAndHolds(State("30")));
  // One of two has a copy, as far as that goes.
  EXPECT_THAT(copier.Troubles(), IsEmpty());
}

TEST_F(CopierTest, WhatOthersHaveStoredIsFoundAtTheStart) {
  for (const char* file :
       {"a/step-000000000050.attempt-1.checkpoint",
        "a/step-000000000040.attempt-2.checkpoint",
        "b/step-000000000060.attempt-1.checkpoint", "b/ended",
        "NOJOB/step-000000000060.attempt-1.checkpoint"}) {
    ASSERT_OK(Store(absl::StrCat("checkpoints/", file), State("x")));
  }
  std::promise<StoredStates> found;
  CheckpointCopier::Options options;
  options.store.on_listed = [&](StoredStates states) {
    found.set_value(std::move(states));
  };
  CheckpointCopier copier(options, client_.get(), store_.get());
  const StoredStates expected = {{"jobs/a", {{1, 50}, {2, 40}}},
                                 {"jobs/b", {{1, 60}}}};
  EXPECT_EQ(found.get_future().get(), expected);
}

TEST_F(CopierTest, WhatOthersStoreLaterIsFoundAtTheNextListing) {
  std::promise<void> listed, found;
  bool first = true, last = false;
  CheckpointCopier::Options options;
  options.store.relist = absl::Milliseconds(1);
  options.store.on_listed = [&](const StoredStates& states) {
    if (first) listed.set_value();
    first = false;
    if (states.empty() || last) return;
    last = true;
    found.set_value();
  };
  CheckpointCopier copier(options, client_.get(), store_.get());
  listed.get_future().get();
  ASSERT_OK(Store("checkpoints/b/step-000000000060.attempt-1.checkpoint",
                  State("x")));
  found.get_future().get();
}

TEST_F(CopierTest, OnlyWhatTheCoordinatorNamesIsDeletedFromTheStore) {
  CheckpointCopier copier({}, client_.get(), store_.get());
  // What somebody put there is left alone.
  ASSERT_OK(Store("checkpoints/a/notes", "x"));
  const auto add = [&](const CheckpointName& name) {
    CheckpointCopier::Task task = TaskOf(name, State("x"));
    task.durable = true;
    copier.Add(task);
    ASSERT_TRUE(copier.Flush(kBound));
  };
  add({500, false, 1});
  add({600, false, 1});
  add({10, false, 2});
  // What the first attempt saves late stays out.
  add({700, false, 1});
  EXPECT_THAT(ListStore("checkpoints/a"),
              IsOkAndHolds(
                  ElementsAre("notes", "step-000000000010.attempt-2.checkpoint",
                              "step-000000000500.attempt-1.checkpoint",
                              "step-000000000600.attempt-1.checkpoint")));
  copier.Expire(kJob, {1, 500});
  copier.Expire(kJob, {1, 800});
  ASSERT_TRUE(copier.Flush(kBound));
  EXPECT_THAT(ListStore("checkpoints/a"),
              IsOkAndHolds(
                  ElementsAre("notes", "step-000000000010.attempt-2.checkpoint",
                              "step-000000000600.attempt-1.checkpoint")));
}

TEST_F(CopierTest, CopiesThatDoNotFitAreATroubleWhileItLasts) {
  ReplicaCache small(size_t{1} << 20);
  ASSERT_OK_AND_ASSIGN(const auto server,
                       PeerServer::Start({}, &small, &folders_, &keys_));
  keys_.Learn(Answer("key", kJob, 1000, server->address()));
  int told = 0;
  CheckpointCopier::Options options;
  options.on_troubles = [&] { ++told; };
  CheckpointCopier copier(options, client_.get(), nullptr);
  const auto add = [&](int64_t step, size_t size) {
    CheckpointCopier::Task task =
        TaskOf({step, false, 4}, State(std::string(size, 'x')));
    task.replicas = {Peer("w2", server->address()),
                     Peer("peer", server_->address())};
    copier.Add(task);
    ASSERT_TRUE(copier.Flush(kBound));
  };
  add(10, 3 << 20);
  ASSERT_THAT(copier.Troubles(), SizeIs(1));
  const v1::MemberTrouble trouble = copier.Troubles()[0];
  EXPECT_EQ(trouble.job(), kJob);
  EXPECT_EQ(trouble.attempt(), 4);
  EXPECT_EQ(trouble.failure_class(), v1::CHECKPOINT_UNREACHABLE);
  EXPECT_EQ(trouble.message(),
            "copies of checkpoints do not fit into the memory of worker w2: "
            "3.0 MiB needed, 1.0 MiB there");
  EXPECT_EQ(told, 1);
  add(20, (3 << 20) + 100);
  EXPECT_EQ(copier.Troubles()[0].message(), trouble.message());
  EXPECT_EQ(told, 1);
  add(30, 100);
  EXPECT_THAT(copier.Troubles(), IsEmpty());
  EXPECT_EQ(told, 2);
  add(40, 3 << 20);
  EXPECT_THAT(copier.Troubles(), SizeIs(1));
  copier.Forget(kJob);
  EXPECT_THAT(copier.Troubles(), IsEmpty());
}

TEST_F(CopierTest, AStoreThatCannotBeWrittenToIsATrouble) {
  ASSERT_OK(WriteFileAtomically(folder_ + "/blocked", "a file"));
  const auto blocked = OpenDirectoryStore(folder_ + "/blocked/store");
  std::promise<void> stored;
  CheckpointCopier::Options options;
  options.on_stored = [&](const std::string&, const StateKey&) {
    stored.set_value();
  };
  options.store.retry_after = absl::Milliseconds(1);
  CheckpointCopier copier(options, client_.get(), blocked.get());
  CheckpointCopier::Task task = TaskOf({10, false, 1}, State("x"));
  task.durable = true;
  copier.Add(task);
  ASSERT_TRUE(copier.Flush(kBound));
  ASSERT_THAT(copier.Troubles(), SizeIs(1));
  EXPECT_THAT(copier.Troubles()[0].message(),
              HasSubstr("checkpoints do not reach the store"));
  // It is tried again, and arrives once the store is back.
  ASSERT_TRUE(std::filesystem::remove(folder_ + "/blocked"));
  stored.get_future().get();
  EXPECT_THAT(blocked->List("checkpoints/a", abandoned_),
              IsOkAndHolds(SizeIs(1)));
  EXPECT_THAT(copier.Troubles(), IsEmpty());
}

TEST_F(CopierTest, ALinkToAnotherJobsStatesIsNotCopied) {
  CheckpointCopier::Task task = TaskOf({40, false, 3}, State("secret"));
  std::filesystem::rename(Local(), folder_ + "/victim");
  std::filesystem::create_symlink(folder_ + "/victim", Local());
  CheckpointCopier copier({}, client_.get(), store_.get());
  task.replicas = {Peer("peer", server_->address())};
  task.durable = true;
  copier.Add(task);
  ASSERT_TRUE(copier.Flush(kBound));
  EXPECT_EQ(cache_.Get(kJob, {3, 40}), nullptr);
  EXPECT_THAT(ListStore("checkpoints/a"), IsOkAndHolds(IsEmpty()));
}

TEST_F(CopiesTest, TheShelfTellsWhatIsWhere) {
  Save(folders_.Checkpoints(kJob).ToString(), {10, false, 5}, State("ten"));
  ASSERT_OK(MakeDirectories(folders_.Work("jobs/b").ToString()));
  ASSERT_OK(cache_.Put("jobs/c", {20, true, 6}, State("twenty")));
  CheckpointShelf shelf(&folders_, &cache_);
  shelf.ScanAll();
  shelf.AddStored("jobs/d", {1, 1});
  EXPECT_TRUE(shelf.SetStored({{kJob, {{5, 10}, {4, 700}}}}));
  EXPECT_FALSE(shelf.SetStored({{kJob, {{5, 10}, {4, 700}}}}));
  EXPECT_TRUE(shelf.AddStored(kJob, {5, 20}));
  EXPECT_FALSE(shelf.AddStored(kJob, {5, 20}));
  shelf.DropStored(kJob, {4, 700});
  shelf.DropStored("jobs/e", {4, 700});
  v1::SynchronizeRequest request;
  shelf.Fill(request.mutable_checkpoints());
  std::vector<std::string> told;
  for (const v1::HeldCheckpoint& held : request.checkpoints()) {
    told.push_back(absl::StrCat(held.job(), " ", held.attempt(), " ",
                                held.step(), " ",
                                v1::HeldCheckpoint::Place_Name(held.place())));
  }
  EXPECT_THAT(told, ::testing::UnorderedElementsAre(
                        "jobs/a 5 10 DISK", "jobs/a 5 10 DURABLE",
                        "jobs/a 5 20 DURABLE", "jobs/b 0 0 PLACE_UNSPECIFIED",
                        "jobs/c 6 20 MEMORY"));
}

TEST_F(CopiesTest, TheStoreHoldsWhatItWasGivenOrSaysSo) {
  ASSERT_OK(Store("checkpoints/a/one", "contents"));
  EXPECT_THAT(FromStore("checkpoints/a/one"), IsOkAndHolds("contents"));
  EXPECT_THAT(FromStore("checkpoints/a/two"),
              StatusIs(absl::StatusCode::kNotFound));
  for (const char* name :
       {"", "/etc/passwd", "../x", "a/../b", "a//b", ".x", "a b", "a/\n"}) {
    EXPECT_THAT(Store(name, "x"), StatusIs(absl::StatusCode::kInvalidArgument))
        << name;
  }
  ASSERT_OK(Store("checkpoints/a/three", "of a file"));
  EXPECT_THAT(FromStore("checkpoints/a/three", 3), IsOkAndHolds("a file"));
  EXPECT_THAT(FromStore("checkpoints/a/three", 10),
              StatusIs(absl::StatusCode::kOutOfRange));
  EXPECT_THAT(FromStore("checkpoints/a/four"),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_OK(store_->Delete("checkpoints/a/three", abandoned_));
  EXPECT_THAT(ListStore("checkpoints/a"), IsOkAndHolds(ElementsAre("one")));
  EXPECT_OK(store_->Delete("checkpoints/a/one", abandoned_));
  EXPECT_OK(store_->Delete("checkpoints/a/one", abandoned_));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/store/checkpoints/a"));
}

TEST_F(CopiesTest, OnlyOldLeftoversAreTidiedOutOfTheStore) {
  ASSERT_OK(Store("checkpoints/b/old", "x"));
  const std::string folder = folder_ + "/store/checkpoints/b/";
  for (const char* name : {"half.tmp.1.0", "new.tmp.1.0"}) {
    ASSERT_OK(WriteFileAtomically(folder + name, "x"));
  }
  for (const char* name : {"old", "half.tmp.1.0"}) {
    std::filesystem::last_write_time(
        folder + name,
        std::filesystem::file_time_type::clock::now() - std::chrono::hours(2));
  }
  EXPECT_THAT(ListStore("checkpoints/b"), IsOkAndHolds(ElementsAre("old")));
  ASSERT_OK(store_->Tidy("checkpoints", absl::Hours(1), abandoned_));
  EXPECT_FALSE(std::filesystem::exists(folder + "half.tmp.1.0"));
  EXPECT_TRUE(std::filesystem::exists(folder + "new.tmp.1.0"));
  EXPECT_THAT(ListStore("checkpoints/b"), IsOkAndHolds(ElementsAre("old")));
  abandoned_ = true;
  EXPECT_THAT(Store("checkpoints/b/new", "x"),
              StatusIs(absl::StatusCode::kAborted));
  EXPECT_THAT(ListStore("checkpoints"), StatusIs(absl::StatusCode::kAborted));
}

}  // namespace
}  // namespace comera::worker
