// Checks which dense jobs a job is compared with.

#include "client/cli/live/dense_peers.h"

#include <string>

#include "absl/strings/substitute.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace comera::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

v1::Job MakeJob(const std::string& name, const std::string& method, double loss,
                int64_t parameters) {
  v1::Job job;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      absl::Substitute(R"pb(
                         name: "jobs/$0"
                         state: SUCCEEDED
                         spec {
                           model { family: MASKED_LM }
                           data { jsonl { train: "/d/train.jsonl" } }
                           compression { method: $1 }
                           training { validation_samples: 512 }
                         }
                         progress {
                           step: 850
                           validation_loss: $2
                           has_validation_loss: true
                           size_parameters: $3
                         }
                         start_time { seconds: 100 }
                         end_time { seconds: 129 }
                       )pb",
                       name, method, loss, parameters),
      &job));
  return job;
}

TEST(DensePeersTest, TheBestOfEachSizeIsChosen) {
  const v1::Job job = MakeJob("mine", "COMERA", 5.5, 60000);
  const DensePeers peers =
      ChooseDensePeers(job, {MakeJob("small", "DENSE", 5.9, 58000),
                             MakeJob("best", "DENSE", 5.8, 66000),
                             MakeJob("large", "DENSE", 5.6, 66001),
                             MakeJob("larger", "DENSE", 5.2, 2500000)});
  ASSERT_TRUE(peers.same_size && peers.larger);
  EXPECT_EQ(peers.same_size->name(), "jobs/best");
  EXPECT_EQ(peers.larger->name(), "jobs/larger");
  EXPECT_THAT(
      DensePeerRows(job, peers),
      ElementsAre(Pair("dense, same size",
                       "validation loss 5.800 with 66,000 parameters after 850 "
                       "steps, 29s (best)"),
                  Pair("dense, larger", HasSubstr("2,500,000 parameters"))));
}

TEST(DensePeersTest, NothingElseIsComparable) {
  const v1::Job job = MakeJob("mine", "COMERA", 5.5, 60000);
  v1::Job other_data = MakeJob("a", "DENSE", 1, 60000);
  other_data.mutable_spec()->mutable_data()->mutable_jsonl()->set_train("/e");
  v1::Job other_validation = MakeJob("b", "DENSE", 1, 60000);
  other_validation.mutable_spec()->mutable_training()->set_validation_samples(
      64);
  v1::Job other_version = MakeJob("c", "DENSE", 1, 60000);
  other_version.add_datasets()->set_version("datasets/d@2");
  v1::Job unfinished = MakeJob("d", "DENSE", 1, 60000);
  unfinished.set_state(v1::RUNNING);
  v1::Job unmeasured = MakeJob("e", "DENSE", 1, 60000);
  unmeasured.mutable_progress()->clear_has_validation_loss();
  v1::Job other_family = MakeJob("f", "DENSE", 1, 60000);
  other_family.mutable_spec()->mutable_model()->set_family(
      v1::ModelSpec::ENCODER_CLASSIFIER);
  const DensePeers peers = ChooseDensePeers(
      job, {other_data, other_validation, other_version, unfinished, unmeasured,
            other_family, MakeJob("g", "COLA", 1, 60000), job});
  EXPECT_FALSE(peers.same_size || peers.larger);
  EXPECT_THAT(DensePeerRows(job, peers),
              ElementsAre(Pair("dense", HasSubstr("loss not known"))));
}

TEST(DensePeersTest, DenseAndFailedJobsHaveNoRows) {
  const v1::Job dense = MakeJob("mine", "DENSE", 5.5, 60000);
  EXPECT_THAT(
      DensePeerRows(dense, ChooseDensePeers(
                               dense, {MakeJob("other", "DENSE", 5.4, 60000)})),
      IsEmpty());
  v1::Job failed = MakeJob("mine", "COMERA", 5.5, 60000);
  failed.set_state(v1::FAILED);
  EXPECT_THAT(DensePeerRows(failed, {}), IsEmpty());
}

}  // namespace
}  // namespace comera::client
