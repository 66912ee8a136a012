// Task files are read with their defaults, and bad ones are refused.
#include "worker/trainer/process/task_file.h"

#include <string>

#include "common/files.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/trainer/process/failure.h"

namespace comera::trainer {
namespace {

using ::testing::HasSubstr;

constexpr char kSpec[] = R"("spec": {
  "model": {"family": "MASKED_LM", "layers": 2, "hidden": 32, "heads": 2},
  "data": {"code_directory": {"roots": ["/tmp"], "globs": ["*.h"]},
           "tokenizer": {"kind": "BYTE_BPE", "train_vocabulary_size": 512},
           "max_length": 16},
  "objective": {"early": {"steps": 5}},
  "training": {"batch_size": 4}})";

std::string Task(const std::string& rest) {
  return std::string("{") + kSpec + rest + "}";
}

TEST(TaskFileTest, SpecAndWorkDirAreEnough) {
  ASSERT_OK_AND_ASSIGN(const TrainerTask task,
                       ParseTask(Task(R"(, "work_dir": "/tmp/w")")));
  EXPECT_EQ(task.job(), "local");
  EXPECT_EQ(task.world_size(), 1);
  EXPECT_EQ(task.local_world_size(), 1);
  EXPECT_EQ(task.spec().model().ffn(), 128);
  EXPECT_EQ(task.spec().objective().kind(), v1::ObjectiveSpec::PARETO);
}

struct BadTask {
  const char* rest;
  const char* names;
};

class BadTaskTest : public ::testing::TestWithParam<BadTask> {};

TEST_P(BadTaskTest, IsRefusedByName) {
  EXPECT_THAT(ParseTask(Task(GetParam().rest)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr(GetParam().names)));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadTaskTest,
    ::testing::Values(
        BadTask{"", "work_dir"},
        BadTask{R"(, "work_dir": "w", "rank": -1)", "rank"},
        BadTask{R"(, "work_dir": "w", "attempt": -1)", "attempt"},
        BadTask{R"(, "work_dir": "w", "start": {"step": 3})", "start"},
        BadTask{R"(, "work_dir": "w", "resume": true, "start": {"step": -3})",
                "start.step"},
        BadTask{R"(, "work_dir": "w", "resume": true,
                   "start": {"attempt": 1000000000000})",
                "start.attempt"},
        BadTask{R"(, "work_dir": "w", "rank": 1)", "rank"},
        BadTask{R"(, "work_dir": "w", "world_size": -2)", "world_size"},
        BadTask{R"(, "work_dir": "w", "world_size": 2)", "rendezvous_dir"},
        BadTask{R"(, "work_dir": "w", "local_rank": 5)", "local_rank"},
        BadTask{R"(, "work_dir": "w", "threads": -1)", "threads"},
        BadTask{R"(, "work_dir": "w", "colour": 1)", "colour"}));

TEST(TaskFileTest, EveryBadFieldOfTheSpecIsNamed) {
  EXPECT_THAT(ParseTask(R"({"work_dir": "w", "spec": {}})"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       ::testing::AllOf(HasSubstr("spec.model"),
                                        HasSubstr("spec.data"))));
}

TEST(TaskFileTest, JunkIsRefused) {
  EXPECT_THAT(ParseTask(""), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(ParseTask(std::string("\x00\xff{", 3)),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(ParseTask(std::string(100000, '[')),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(TaskFileTest, FilesAreNamedInErrors) {
  EXPECT_THAT(ReadTaskFile("/nonexistent/task.json"),
              StatusIs(absl::StatusCode::kNotFound));
  const std::string path = ::testing::TempDir() + "/task.json";
  ASSERT_OK(WriteFileAtomically(path, "{"));
  EXPECT_THAT(ReadTaskFile(path), StatusIs(absl::StatusCode::kInvalidArgument,
                                           HasSubstr("task.json")));
}

TEST(FailureTest, ClassByCode) {
  EXPECT_EQ(FailureClassOf(absl::InvalidArgumentError("")), v1::USER);
  EXPECT_EQ(FailureClassOf(absl::NotFoundError("")), v1::USER);
  EXPECT_EQ(FailureClassOf(absl::FailedPreconditionError("")), v1::USER);
  EXPECT_EQ(FailureClassOf(absl::DataLossError("")), v1::DATA);
  EXPECT_EQ(FailureClassOf(absl::ResourceExhaustedError("")),
            v1::OUT_OF_MEMORY);
  EXPECT_EQ(FailureClassOf(absl::UnavailableError("")), v1::COLLECTIVE_HANG);
  EXPECT_EQ(FailureClassOf(absl::DeadlineExceededError("")),
            v1::COLLECTIVE_HANG);
  EXPECT_EQ(FailureClassOf(absl::InternalError("")), v1::INTERNAL);
}

TEST(FailureTest, TheFirstClassStays) {
  absl::Status status =
      WithFailureClass(absl::InternalError("x"), v1::NAN_LOSS);
  status = WithFailureClass(status, v1::INTERNAL);
  const v1::Failure failure = ToFailure(status, 3, 1);
  EXPECT_EQ(failure.failure_class(), v1::NAN_LOSS);
  EXPECT_EQ(failure.message(), "x");
  EXPECT_EQ(failure.attempt(), 3);
  EXPECT_EQ(failure.rank(), 1);
  EXPECT_OK(WithFailureClass(absl::OkStatus(), v1::INTERNAL));
}

}  // namespace
}  // namespace comera::trainer
