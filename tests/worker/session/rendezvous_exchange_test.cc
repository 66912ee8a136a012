// Tests what is sent of folders that a hostile member has filled.
#include "worker/session/rendezvous_exchange.h"

#include <stdlib.h>

#include <fstream>
#include <string>
#include <vector>

#include "comera/v1/worker_service.pb.h"
#include "common/files.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace comera::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Gang = RendezvousExchange::Gang;

class RendezvousExchangeTest : public ::testing::Test {
 protected:
  RendezvousExchangeTest() {
    std::string folder = ::testing::TempDir() + "/exchange-XXXXXX";
    EXPECT_NE(mkdtemp(folder.data()), nullptr);
    folders_ = std::make_unique<JobFolders>(folder);
    exchange_ = std::make_unique<RendezvousExchange>(folders_.get());
  }

  // Writes a file into the gang's folder, which makes it one of the gangs.
  void Write(const Gang& gang, const std::string& file, size_t bytes = 1,
             int members = 1) {
    const std::string folder = folders_->Rendezvous(gang.first, gang.second);
    if (gangs_.emplace(gang, members).second) {
      ASSERT_OK(MakeDirectories(folder));
    }
    std::ofstream(folder + "/" + file) << std::string(bytes, 'x');
  }

  // The request as it arrives; its keys are those of `gang`.
  std::vector<std::string> Keys(const Gang& gang) {
    v1::SynchronizeRequest request;
    any_new_ = exchange_->Collect(gangs_, request.mutable_rendezvous());
    const std::string sent = request.SerializeAsString();
    bytes_ = sent.size();
    v1::SynchronizeRequest arrived;
    EXPECT_TRUE(arrived.ParseFromString(sent));
    std::vector<std::string> keys;
    for (const v1::RendezvousEntry& entry : arrived.rendezvous()) {
      if (entry.job() == gang.first) keys.push_back(entry.key());
    }
    return keys;
  }

  std::unique_ptr<JobFolders> folders_;
  std::unique_ptr<RendezvousExchange> exchange_;
  RendezvousExchange::Gangs gangs_;
  const Gang a_{"jobs/a", 1};
  const Gang z_{"jobs/z", 1};
  bool any_new_ = false;
  size_t bytes_ = 0;
};

TEST_F(RendezvousExchangeTest, KeysThatAreNoTextArePassedOver) {
  Write(a_, "%FF");
  Write(a_, "%0A");
  Write(a_, "gloo-1");
  Write(a_, "rank%2F0");
  EXPECT_THAT(Keys(a_), ElementsAre("gloo-1", "rank/0"));
}

TEST_F(RendezvousExchangeTest, OneGangDoesNotFillTheCall) {
  for (int i = 0; i < 65; ++i) {
    Write(a_, "file-" + std::to_string(i), size_t{256} << 10);
  }
  Write(z_, "gloo-1", 140 << 10);
  EXPECT_THAT(Keys(z_), ElementsAre("gloo-1"));
  EXPECT_LT(bytes_, RendezvousExchange::kMaxCallBytes);
  EXPECT_GE(bytes_, RendezvousExchange::kMaxGangBytes / 2);
}

TEST_F(RendezvousExchangeTest, EmptyFilesTakeRoomToo) {
  for (int i = 0; i < 500; ++i) Write(a_, "file-" + std::to_string(i), 0);
  gangs_[z_] = 15;
  EXPECT_LE(Keys(a_).size(), RendezvousExchange::kMaxCallBytes / 16 / 1024);
}

TEST_F(RendezvousExchangeTest, ManyGangsLeaveRoomForEachOther) {
  for (int job = 0; job < 8; ++job) {
    for (int i = 0; i < 10; ++i) {
      Write({"jobs/b" + std::to_string(job), 1}, std::to_string(i),
            size_t{256} << 10);
    }
  }
  for (int i = 0; i < 8; ++i) {
    for (const Gang& gang : {a_, z_}) {
      Write(gang, "gloo-" + std::to_string(i), 140 << 10, /*members=*/8);
    }
  }
  EXPECT_EQ(Keys(a_).size(), 8);
  EXPECT_EQ(Keys(z_).size(), 8);
  EXPECT_LT(bytes_, RendezvousExchange::kMaxCallBytes);
}

TEST_F(RendezvousExchangeTest, AllIsRepeatedAndOnlyNewKeysAreNews) {
  Write(a_, "one");
  EXPECT_THAT(Keys(a_), ElementsAre("one"));
  EXPECT_TRUE(any_new_);
  EXPECT_THAT(Keys(a_), ElementsAre("one"));
  EXPECT_FALSE(any_new_);
  Write(a_, "two");
  EXPECT_THAT(Keys(a_), ElementsAre("one", "two"));
  EXPECT_TRUE(any_new_);
}

TEST_F(RendezvousExchangeTest, WhatOthersWroteIsNotSentBack) {
  Write(a_, "one");
  google::protobuf::RepeatedPtrField<v1::RendezvousEntry> entries;
  v1::RendezvousEntry* entry = entries.Add();
  entry->set_job(a_.first);
  entry->set_attempt(a_.second);
  entry->set_key("other");
  ASSERT_OK(exchange_->Deliver(gangs_, entries));
  EXPECT_THAT(Keys(a_), ElementsAre("one"));
  EXPECT_THAT(Keys(z_), IsEmpty());
}

}  // namespace
}  // namespace comera::worker
