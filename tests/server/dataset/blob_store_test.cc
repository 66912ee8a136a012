// Tests uploads, resumption and removal of blobs.
#include "server/dataset/blob_store.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cstdlib>
#include <string>

#include "common/files.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/manual_clock.h"
#include "tests/server/temp_dir.h"

namespace comera::server {
namespace {

using ::testing::HasSubstr;
using Code = absl::StatusCode;

class BlobStoreTest : public ::testing::Test {
 protected:
  BlobStoreTest() {
    options_.min_free_bytes = 0;
    Open();
  }

  void Open() {
    auto store = BlobStore::Open(folder_.path(), options_, &clock_);
    ASSERT_OK(store);
    store_ = *std::move(store);
  }

  // Sends all of it in one piece.
  absl::Status Send(const std::string& data, const std::string& sha256) {
    auto upload =
        store_->BeginUpload(sha256, static_cast<int64_t>(data.size()), 0);
    if (!upload.ok()) return upload.status();
    const absl::Status status = (*upload)->Add(data);
    return status.ok() ? (*upload)->Finish() : status;
  }

  TempDir folder_;
  ManualClock clock_;
  BlobStore::Options options_;
  std::unique_ptr<BlobStore> store_;
};

TEST_F(BlobStoreTest, KeepsWhatItWasGiven) {
  const std::string data(100000, 'x');
  const std::string sha256 = Sha256Hex(data);
  EXPECT_THAT(store_->Size(sha256), StatusIs(Code::kNotFound));
  ASSERT_OK(Send(data, sha256));
  EXPECT_EQ(*store_->Size(sha256), 100000);
  EXPECT_EQ(*store_->Read(sha256, 100000), data);
  EXPECT_EQ(store_->used_bytes(), 100000);
  EXPECT_THAT(Send(data, sha256), StatusIs(Code::kAlreadyExists));
  EXPECT_THAT(store_->BeginUpload(sha256, 5, 0),
              StatusIs(Code::kInvalidArgument, HasSubstr("has 100000 bytes")));
  Open();
  EXPECT_EQ(*store_->Size(sha256), 100000);
  EXPECT_EQ(store_->used_bytes(), 100000);
  EXPECT_EQ(store_->Remove(sha256), 100000);
  EXPECT_EQ(store_->Remove(sha256), 0);
  EXPECT_EQ(store_->used_bytes(), 0);
}

TEST_F(BlobStoreTest, EmptyBlob) {
  ASSERT_OK(Send("", Sha256Hex("")));
  EXPECT_EQ(*store_->Size(Sha256Hex("")), 0);
}

TEST_F(BlobStoreTest, ContinuesAfterABreakAndARestart) {
  const std::string data = "hello, world";
  const std::string sha256 = Sha256Hex(data);
  {
    ASSERT_OK_AND_ASSIGN(auto upload, store_->BeginUpload(sha256, 12, 0));
    // What is announced takes no room.
    EXPECT_EQ(store_->used_bytes(), 0);
    ASSERT_OK(upload->Add("hello"));
    EXPECT_EQ(store_->used_bytes(), 5);
  }
  EXPECT_EQ(store_->used_bytes(), 5);
  EXPECT_EQ(store_->PartialSize(sha256), 5);
  EXPECT_THAT(store_->Size(sha256), StatusIs(Code::kNotFound));
  Open();
  EXPECT_EQ(store_->used_bytes(), 5);
  EXPECT_THAT(store_->BeginUpload(sha256, 12, 0),
              StatusIs(Code::kOutOfRange, HasSubstr("5 bytes are there")));
  ASSERT_OK_AND_ASSIGN(auto upload, store_->BeginUpload(sha256, 12, 5));
  EXPECT_FALSE(*upload->CatchUp(2));
  EXPECT_FALSE(*upload->CatchUp(2));
  EXPECT_TRUE(*upload->CatchUp(2));
  ASSERT_OK(upload->Add(", world"));
  ASSERT_OK(upload->Finish());
  EXPECT_EQ(*store_->Read(sha256, 100), data);
  EXPECT_EQ(store_->PartialSize(sha256), 0);
  EXPECT_EQ(store_->used_bytes(), 12);
}

TEST_F(BlobStoreTest, WhatIsNotTheBlobLeavesNothing) {
  const std::string sha256 = Sha256Hex("right");
  EXPECT_THAT(Send("wrong", sha256),
              StatusIs(Code::kDataLoss, HasSubstr("checksum")));
  EXPECT_EQ(store_->PartialSize(sha256), 0);
  EXPECT_EQ(store_->used_bytes(), 0);
  {
    ASSERT_OK_AND_ASSIGN(auto upload, store_->BeginUpload(sha256, 5, 0));
    EXPECT_THAT(upload->Add("too long"),
                StatusIs(Code::kDataLoss, HasSubstr("announced 5")));
    EXPECT_THAT(upload->Finish(), StatusIs(Code::kAborted));
  }
  EXPECT_EQ(store_->PartialSize(sha256), 0);
  // A part that is longer than the blob was not of this blob.
  {
    ASSERT_OK_AND_ASSIGN(auto upload, store_->BeginUpload(sha256, 100, 0));
    ASSERT_OK(upload->Add("something else"));
  }
  EXPECT_THAT(store_->BeginUpload(sha256, 5, 14), StatusIs(Code::kOutOfRange));
  EXPECT_EQ(store_->used_bytes(), 0);
  EXPECT_OK(Send("right", sha256));
}

TEST_F(BlobStoreTest, TooFewBytesAreKeptForTheNextTry) {
  const std::string sha256 = Sha256Hex("right");
  ASSERT_OK_AND_ASSIGN(auto upload, store_->BeginUpload(sha256, 5, 0));
  ASSERT_OK(upload->Add("rig"));
  EXPECT_THAT(upload->Finish(), StatusIs(Code::kDataLoss, HasSubstr("3 by")));
  upload.reset();
  EXPECT_EQ(store_->PartialSize(sha256), 3);
}

TEST_F(BlobStoreTest, OneUploadOfABlobAtATime) {
  const std::string sha256 = Sha256Hex("12345678");
  ASSERT_OK_AND_ASSIGN(auto first, store_->BeginUpload(sha256, 8, 0));
  ASSERT_OK(first->Add("12"));
  EXPECT_THAT(store_->BeginUpload(sha256, 8, 2),
              StatusIs(Code::kUnavailable, HasSubstr("another client")));
  // One that sends nothing makes way, and cannot come back.
  clock_.Advance(absl::Seconds(31));
  ASSERT_OK_AND_ASSIGN(auto second, store_->BeginUpload(sha256, 8, 2));
  EXPECT_THAT(first->Add("xx"), StatusIs(Code::kAborted));
  EXPECT_THAT(first->Finish(), StatusIs(Code::kAborted));
  first.reset();
  EXPECT_TRUE(*second->CatchUp(100));
  ASSERT_OK(second->Add("345678"));
  ASSERT_OK(second->Finish());
  EXPECT_EQ(*store_->Read(sha256, 8), "12345678");
  EXPECT_EQ(store_->used_bytes(), 8);
}

TEST_F(BlobStoreTest, BoundsSayWhatIsFree) {
  options_.max_blob_bytes = 1000;
  options_.quota_bytes = 1500;
  Open();
  EXPECT_THAT(store_->BeginUpload(Sha256Hex("a"), 1001, 0),
              StatusIs(Code::kResourceExhausted, HasSubstr("at most 1000")));
  const std::string b(1000, 'b');
  ASSERT_OK_AND_ASSIGN(auto upload, store_->BeginUpload(Sha256Hex(b), 1000, 0));
  // Nothing has come yet, so there is room for another.
  ASSERT_OK_AND_ASSIGN(auto other,
                       store_->BeginUpload(Sha256Hex("c"), 1000, 0));
  ASSERT_OK(upload->Add(b));
  EXPECT_THAT(store_->BeginUpload(Sha256Hex("d"), 501, 0),
              StatusIs(Code::kResourceExhausted, HasSubstr("500 are free")));
  EXPECT_THAT(store_->Put(std::string(501, 'p')),
              StatusIs(Code::kResourceExhausted));
  // An upload that began with room ends where there is none left, and what came
  // of it stays.
  ASSERT_OK(other->Add(std::string(500, 'x')));
  EXPECT_THAT(other->Add("x"),
              StatusIs(Code::kResourceExhausted, HasSubstr("0 are free")));
  other.reset();
  EXPECT_EQ(store_->PartialSize(Sha256Hex("c")), 500);
  EXPECT_EQ(store_->used_bytes(), 1500);
  // No upload outlives its store.
  upload.reset();
  options_.quota_bytes = 10000;
  options_.min_free_bytes = int64_t{1} << 60;
  Open();
  EXPECT_THAT(
      store_->BeginUpload(Sha256Hex("e"), 501, 0),
      StatusIs(Code::kResourceExhausted, HasSubstr("free on the server's")));
}

TEST_F(BlobStoreTest, BytesInNoDatasetAreTheirSenders) {
  const BlobSender alice = {"alice", 100, 110};
  const std::string data = "12345678";
  const std::string sha256 = Sha256Hex(data);
  {
    ASSERT_OK_AND_ASSIGN(auto upload, store_->BeginUpload(sha256, 8, 0, alice));
    ASSERT_OK(upload->Add("1234"));
  }
  EXPECT_EQ(store_->UnclaimedBytes("alice"), 4);
  EXPECT_THAT(
      store_->BeginUpload(Sha256Hex("other"), 7, 0, alice),
      StatusIs(Code::kResourceExhausted, HasSubstr("--user_dataset_bytes")));
  // A user who goes on with it owes all of it.
  const BlobSender bob = {"bob", 0, 0};
  ASSERT_OK_AND_ASSIGN(auto upload, store_->BeginUpload(sha256, 8, 4, bob));
  EXPECT_TRUE(*upload->CatchUp(100));
  ASSERT_OK(upload->Add("5678"));
  ASSERT_OK(upload->Finish());
  EXPECT_EQ(store_->UnclaimedBytes("alice"), 0);
  EXPECT_EQ(store_->UnclaimedBytes("bob"), 8);
  store_->Claim(sha256);
  EXPECT_EQ(store_->UnclaimedBytes("bob"), 0);
  // What goes is owed by nobody.
  ASSERT_OK_AND_ASSIGN(upload, store_->BeginUpload(Sha256Hex("xy"), 2, 0, bob));
  ASSERT_OK(upload->Add("xy"));
  ASSERT_OK(upload->Finish());
  EXPECT_EQ(store_->UnclaimedBytes("bob"), 2);
  store_->Remove(Sha256Hex("xy"));
  EXPECT_EQ(store_->UnclaimedBytes("bob"), 0);
}

TEST_F(BlobStoreTest, FullDiskLeavesNothing) {
  signal(SIGXFSZ, SIG_IGN);
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 50000;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string data(100000, 'x');
  const absl::Status status = Send(data, Sha256Hex(data));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_THAT(status,
              StatusIs(Code::kResourceExhausted, HasSubstr("disk is full")));
  EXPECT_EQ(store_->PartialSize(Sha256Hex(data)), 0);
  EXPECT_EQ(store_->used_bytes(), 0);
  EXPECT_OK(Send(data, Sha256Hex(data)));
}

TEST_F(BlobStoreTest, DamagedBlobsAreNotRead) {
  ASSERT_OK_AND_ASSIGN(const std::string sha256, store_->Put("contents"));
  chmod(store_->Path(sha256).c_str(), 0600);
  ASSERT_OK(WriteFileAtomically(store_->Path(sha256), "cOntents"));
  EXPECT_THAT(store_->Read(sha256, 100), StatusIs(Code::kDataLoss));
  EXPECT_THAT(store_->Read(sha256, 7), StatusIs(Code::kDataLoss));
}

TEST_F(BlobStoreTest, OldUnusedBlobsAndPartsGo) {
  ASSERT_OK_AND_ASSIGN(const std::string used, store_->Put("used"));
  ASSERT_OK_AND_ASSIGN(const std::string unused, store_->Put("unused"));
  {
    ASSERT_OK_AND_ASSIGN(auto part,
                         store_->BeginUpload(Sha256Hex("part"), 4, 0));
    ASSERT_OK(part->Add("pa"));
  }
  ASSERT_OK_AND_ASSIGN(auto going,
                       store_->BeginUpload(Sha256Hex("going"), 5, 0));
  ASSERT_OK(going->Add("goi"));
  const std::string about = folder_.path() + "/descriptions/" + unused;
  ASSERT_OK(MakeDirectories(about));
  EXPECT_EQ(store_->RemoveUnused({used}, absl::Now() - absl::Hours(1)), 0);
  EXPECT_EQ(store_->RemoveUnused({used}, absl::Now() + absl::Hours(1)), 6 + 2);
  EXPECT_EQ(*store_->Size(used), 4);
  EXPECT_THAT(store_->Size(unused), StatusIs(Code::kNotFound));
  EXPECT_NE(access(about.c_str(), F_OK), 0);
  EXPECT_EQ(store_->PartialSize(Sha256Hex("going")), 3);
  EXPECT_EQ(store_->used_bytes(), 4 + 3);
}

}  // namespace
}  // namespace comera::server
