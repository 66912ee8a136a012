// Checks the JSON that the command line writes for programs.

#include "client/cli/output/message_text.h"

#include <limits>
#include <string>

#include "comera/v1/job.pb.h"
#include "comera/v1/progress.pb.h"
#include "comera/v1/sweep_service.pb.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"

namespace comera::client {
namespace {

TEST(MessageTextTest, NumbersAreNumbers) {
  v1::JobProgress progress;
  progress.set_step(120);
  progress.set_loss(2.5);
  progress.set_size_parameters(-7);
  progress.mutable_eta()->set_seconds(90);
  EXPECT_EQ(ToJson(progress, /*one_line=*/true),
            "{\"step\":120,\"loss\":2.5,\"size_parameters\":-7,"
            "\"eta\":\"90s\"}\n");
}

TEST(MessageTextTest, TheyAreInListsAndMessagesToo) {
  v1::JobSpec spec;
  spec.mutable_compression()->mutable_attention()->add_ranks(8);
  spec.mutable_compression()->mutable_attention()->add_ranks(16);
  (*spec.mutable_labels())["step"] = "5";
  EXPECT_EQ(ToJson(spec, /*one_line=*/true),
            "{\"labels\":{\"step\":\"5\"},\"compression\":{\"attention\":"
            "{\"ranks\":[8,16]}}}\n");
}

TEST(MessageTextTest, WhatADoubleCannotHoldStaysText) {
  v1::RandomRuns random;
  random.set_seed(std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(ToJson(random, /*one_line=*/true),
            "{\"seed\":\"18446744073709551615\"}\n");
  random.set_seed(uint64_t{1} << 53);
  EXPECT_EQ(ToJson(random, /*one_line=*/true),
            "{\"seed\":9007199254740992}\n");
}

TEST(MessageTextTest, TheSameMessageComesBack) {
  v1::Job job;
  job.set_name("jobs/j");
  job.set_attempt(3);
  job.mutable_progress()->set_loss(std::numeric_limits<double>::quiet_NaN());
  job.mutable_create_time()->set_seconds(1764000000);
  v1::Checkpoint& checkpoint = *job.add_checkpoints();
  checkpoint.set_step(100);
  checkpoint.set_size_bytes(int64_t{1} << 40);
  for (const bool one_line : {true, false}) {
    v1::Job again;
    ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(
                    ToJson(job, one_line), &again)
                    .ok());
    EXPECT_EQ(again.DebugString(), job.DebugString());
  }
}

TEST(MessageTextTest, WhatTerminalsObeyIsEscaped) {
  v1::Job job;
  job.set_reason("\x1b\x7f\u009b\u202e→");
  EXPECT_EQ(ToJson(job, /*one_line=*/true),
            "{\"reason\":\"\\u001b\\u007f\\u009b\\u202e→\"}\n");
  EXPECT_EQ(ToYaml(job), "---\nreason: \"\\x1b\\u007f\\x9b\\u202e→\"\n");
  job.set_reason("a\u202eb");
  EXPECT_EQ(ToYaml(job), "---\nreason: \"a\\u202eb\"\n");
}

}  // namespace
}  // namespace comera::client
