// Checks pieces, acknowledgements and ends of logs sent to the coordinator.

#include "worker/report/log_shipper.h"

#include <stdlib.h>

#include <fstream>

#include "gtest/gtest.h"

namespace comera::worker {
namespace {

class LogShipperTest : public testing::Test {
 protected:
  LogShipperTest() {
    folder_ = testing::TempDir() + "/logs-XXXXXX";
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
  }

  v1::MemberKey Begin(int rank) {
    v1::MemberKey key;
    key.set_job("jobs/a");
    key.set_attempt(1);
    key.set_rank(rank);
    shipper_.Begin(key, Path(rank));
    return key;
  }
  std::string Path(int rank) { return folder_ + "/" + std::to_string(rank); }
  void Write(int rank, const std::string& text) {
    std::ofstream(Path(rank), std::ios::app) << text;
  }
  google::protobuf::RepeatedPtrField<v1::LogChunk> Fill(size_t limit = 1000) {
    google::protobuf::RepeatedPtrField<v1::LogChunk> chunks;
    const bool any = shipper_.Fill(limit, &chunks);
    EXPECT_EQ(any, chunks.size() > 0);
    return chunks;
  }
  void Acknowledge(int rank, int64_t offset) {
    google::protobuf::RepeatedPtrField<v1::LogAck> acks;
    v1::LogAck* ack = acks.Add();
    ack->set_job("jobs/a");
    ack->set_attempt(1);
    ack->set_rank(rank);
    ack->set_offset(offset);
    shipper_.OnResponse(acks);
  }

  std::string folder_;
  LogShipper shipper_;
};

TEST_F(LogShipperTest, SendsFromTheAcknowledgedOffset) {
  Begin(0);
  EXPECT_TRUE(Fill().empty());  // the file does not exist yet
  Write(0, "hello");
  ASSERT_EQ(Fill().size(), 1);
  EXPECT_EQ(Fill()[0].data(), "hello");
  EXPECT_EQ(Fill()[0].offset(), 0);
  Acknowledge(0, 5);
  EXPECT_TRUE(Fill().empty());
  Write(0, " you");
  EXPECT_EQ(Fill()[0].data(), " you");
  EXPECT_EQ(Fill()[0].offset(), 5);
  // A coordinator that lost a part acknowledges less.
  Acknowledge(0, 2);
  EXPECT_EQ(Fill()[0].data(), "llo you");
}

TEST_F(LogShipperTest, SharesTheLimit) {
  Begin(0);
  Begin(1);
  Write(0, std::string(10000, 'a'));
  Write(1, std::string(10000, 'b'));
  const auto chunks = Fill(1000);
  ASSERT_EQ(chunks.size(), 2);
  EXPECT_EQ(chunks[0].data().size(), 500);
  EXPECT_EQ(chunks[1].data().size(), 500);
}

TEST_F(LogShipperTest, ForgetsAnEndedLogOnceItIsThere) {
  const v1::MemberKey key = Begin(0);
  Write(0, "bye");
  EXPECT_EQ(Fill().size(), 1);
  shipper_.End(key);
  EXPECT_EQ(Fill().size(), 1);
  Acknowledge(0, 3);
  EXPECT_TRUE(Fill().empty());
  EXPECT_EQ(shipper_.size(), 0);
}

TEST_F(LogShipperTest, GivesUpOnAnEndedLogThatNobodyTakes) {
  const v1::MemberKey key = Begin(0);
  Write(0, "unwanted");
  shipper_.End(key);
  int answers = 0;
  for (; shipper_.size() > 0 && answers < 10000; ++answers) {
    EXPECT_EQ(Fill().size(), 1);
    shipper_.OnResponse({});
  }
  EXPECT_EQ(answers, 600);
}

}  // namespace
}  // namespace comera::worker
