// Members whose data differ are found out before the first step.
#include "worker/trainer/loop/data_agreement.h"

#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/data/temp_folder.h"
#include "tests/worker/trainer/loop/trainer_harness.h"
#include "worker/collective/in_process_communicator.h"
#include "worker/trainer/data/open_training_data.h"
#include "worker/trainer/process/failure.h"

namespace comera::trainer {
namespace {

using ::testing::HasSubstr;

// What each member gets whose data have the digest of these texts.
std::vector<absl::Status> Check(const std::vector<std::string>& texts) {
  const int world = static_cast<int>(texts.size());
  auto gang = collective::CreateInProcessGroup(world);
  std::vector<absl::Status> statuses(world);
  std::vector<std::thread> threads;
  for (int member = 0; member < world; ++member) {
    threads.emplace_back([&, member] {
      statuses[member] =
          CheckSameData(gang[member].get(), Sha256Hex(texts[member]));
    });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

TEST(DataAgreementTest, EqualDataPass) {
  EXPECT_OK(CheckSameData(nullptr, Sha256Hex("a")));
  for (const absl::Status& status : Check({"a"})) EXPECT_OK(status);
  for (const absl::Status& status : Check({"a", "a", "a"})) EXPECT_OK(status);
}

TEST(DataAgreementTest, AllMembersNameThoseThatDiffer) {
  for (const absl::Status& status : Check({"a", "b"})) {
    EXPECT_THAT(status,
                StatusIs(absl::StatusCode::kDataLoss,
                         HasSubstr("data: member 1 of 2 reads other samples "
                                   "than member 0")));
    EXPECT_EQ(FailureClassOf(status), v1::DATA);
  }
  for (const absl::Status& status : Check({"a", "b", "a", "c"})) {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kDataLoss,
                                 HasSubstr("data: members 1, 3 of 4 read")));
  }
}

// A gang of which member 1 reads a file whose lines are in reverse.
TEST(DataAgreementTest, AReversedFileIsNoticed) {
  const TempFolder folder;
  v1::JobSpec spec = TinySpec();
  spec.mutable_compression()->set_method(v1::CompressionSpec::DENSE);
  std::vector<std::string> lines;
  for (int i = 0; i < 60; ++i) {
    lines.push_back(absl::StrCat("{\"code\": \"int f", i, "(int x) { return x * ",
                                 i * i, "; }\"}\n"));
  }
  std::vector<std::unique_ptr<TrainingData>> data;
  for (bool reversed : {false, true}) {
    const std::string path =
        absl::StrCat(folder.path(), "/train", reversed, ".jsonl");
    std::ofstream file(path);
    for (size_t i = 0; i < lines.size(); ++i) {
      file << lines[reversed ? lines.size() - 1 - i : i];
    }
    file.close();
    v1::Jsonl& jsonl = *spec.mutable_data()->mutable_jsonl();
    jsonl.set_train(path);
    jsonl.set_validation(absl::StrCat(folder.path(), "/train0.jsonl"));
    jsonl.clear_fields();
    jsonl.add_fields("code");
    v1::TokenizerSpec& tokenizer = *spec.mutable_data()->mutable_tokenizer();
    tokenizer.set_kind(v1::TokenizerSpec::BYTE_BPE);
    tokenizer.set_train_vocabulary_size(300);
    auto opened = OpenTrainingData(spec, {});
    ASSERT_OK(opened);
    data.push_back(*std::move(opened));
  }
  TestRun run;
  run.spec = spec;
  run.data_of = [&](int member) { return data[member].get(); };
  run.Run(/*members=*/2);
  for (const absl::Status& status : run.statuses) {
    EXPECT_EQ(FailureClassOf(status), v1::DATA);
    EXPECT_THAT(status.message(), HasSubstr("member 1 of 2 reads other"));
  }
}

}  // namespace
}  // namespace comera::trainer
