// comera-trainer foretells how much memory it will take.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "worker/trainer/planning/calibration.h"

namespace comera::trainer {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;

struct Ended {
  int code = 0;
  int64_t peak_bytes = 0;
  std::string out, err;
};

// Runs comera-trainer to its end.
Ended RunTrainer(std::vector<std::string> arguments, const std::string& dir) {
  arguments.insert(arguments.begin(), "worker/trainer/comera-trainer");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const std::string out = dir + "/out", err = dir + "/err";
  const pid_t pid = fork();
  if (pid == 0) {
    constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC;
    dup2(open(out.c_str(), kFlags, 0644), STDOUT_FILENO);
    dup2(open(err.c_str(), kFlags, 0644), STDERR_FILENO);
    execv(argv[0], argv.data());
    _exit(127);
  }
  Ended ended;
  int status = 0;
  rusage usage = {};
  wait4(pid, &status, 0, &usage);
  ended.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  ended.peak_bytes = int64_t{usage.ru_maxrss} * 1024;
  ended.out = ReadFile(out).value_or("");
  ended.err = ReadFile(err).value_or("");
  return ended;
}

class MemoryTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    dir_ = absl::StrCat(::testing::TempDir(), "/memory_test");
    fs::remove_all(dir_);
    fs::create_directories(dir_ + "/corpus");
    for (int f = 0; f < 12; ++f) {
      std::ofstream file(absl::StrCat(dir_, "/corpus/file", f, ".h"));
      for (int i = 0; i < 1500; ++i) {
        file << "int value_" << (i * 7 + f) % 11 << " = function_"
             << (i + f) % 5 << "(argument, " << i % 3 << ");\n";
      }
    }
  }

  // Describes the task with these fields beside its own.
  std::string Task(const json& compression, const json& more = json::object()) {
    json spec = {
        {"model",
         {{"family", "MASKED_LM"},
          {"layers", 4},
          {"hidden", 256},
          {"ffn", 1024},
          {"heads", 4}}},
        {"data",
         {{"code_directory",
           {{"roots", {dir_ + "/corpus"}}, {"globs", {"*.h"}}}},
          {"tokenizer", {{"kind", "BYTE_BPE"}, {"train_vocabulary_size", 400}}},
          {"max_length", 128}}},
        {"compression", compression},
        {"objective", {{"early", {{"steps", 4}}}}},
        {"training", {{"batch_size", 32}, {"validate_every_steps", 4}}},
        {"checkpoint", {{"every_steps", 2}}}};
    spec.update(more);
    const json task = {{"spec", spec},
                       {"work_dir", dir_ + "/work"},
                       {"cache_dir", dir_ + "/cache"},
                       {"threads", 2}};
    const std::string path = dir_ + "/task.json";
    std::ofstream(path) << task;
    return path;
  }

  std::string dir_;
};

TEST_P(MemoryTest, PeakIsWhatDescribeSaid) {
  const std::string task = Task({{"method", GetParam()}});
  const Ended described = RunTrainer({"--describe", "--task=" + task}, dir_);
  ASSERT_EQ(described.code, 0) << described.err;
  const json description = json::parse(described.out);
  const Ended trained = RunTrainer({"--task=" + task}, dir_);
  ASSERT_EQ(trained.code, 0) << trained.err << trained.out;
  const double predicted = description["memory"]["peak"];
  EXPECT_NEAR(static_cast<double>(trained.peak_bytes), predicted,
              0.1 * predicted)
      << description["memory"];
  // Most of it is the model's.
  EXPECT_GT(description["memory"]["activations"], int64_t{40} << 20);
}

INSTANTIATE_TEST_SUITE_P(Methods, MemoryTest,
                         ::testing::Values("COMERA", "DENSE"),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

using DescribeTest = MemoryTest;

TEST_F(DescribeTest, TellsLayersAndAssumptionsWithoutData) {
  fs::remove_all(dir_ + "/corpus");
  const Ended ended = RunTrainer(
      {"--describe", "--task=" + Task({{"method", "COMERA"}})}, dir_);
  ASSERT_EQ(ended.code, 0) << ended.err;
  const json d = json::parse(ended.out);
  EXPECT_EQ(d["layers"].size(), 1 + 4 * 6 + 2);
  EXPECT_EQ(d["layers"][1]["name"], "layers.0.query");
  EXPECT_EQ(d["layers"][1]["path"], "prefix/suffix");
  EXPECT_EQ(d["layers"][1]["rows"], 32 * 128);
  EXPECT_GT(d["layers"][1]["dense_multiply_adds"],
            d["layers"][1]["multiply_adds"]);
  EXPECT_GT(d["step"]["dense_seconds"], d["step"]["seconds"]);
  EXPECT_GT(d["step"]["backward_seconds"], d["step"]["forward_seconds"]);
  EXPECT_EQ(d["calibrated"], false);
  EXPECT_FALSE(fs::exists(dir_ + "/work"));
}

TEST_F(DescribeTest, VocabularyIsAskedForWhereTheTaskDoesNotSay) {
  const json data = {
      {"data",
       {{"code_directory", {{"roots", {dir_ + "/corpus"}}, {"globs", {"*.h"}}}},
        {"tokenizer",
         {{"kind", "WORDPIECE"}, {"vocabulary_file", "/nonexistent/v.txt"}}},
        {"max_length", 128}}}};
  const std::string task = Task({{"method", "COMERA"}}, data);
  Ended ended = RunTrainer({"--describe", "--task=" + task}, dir_);
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("30522 tokens"));
  EXPECT_THAT(ended.out, HasSubstr("--vocabulary"));
  const int64_t assumed = json::parse(ended.out)["dense_parameters"];
  ended =
      RunTrainer({"--describe", "--vocabulary=1000", "--task=" + task}, dir_);
  ASSERT_EQ(ended.code, 0) << ended.err;
  // Table, projection and its bias.
  EXPECT_EQ(json::parse(ended.out)["dense_parameters"],
            assumed - (30522 - 1000) * (2 * 256 + 1));
  ended = RunTrainer({"--describe", "--vocabulary=-1", "--task=" + task}, dir_);
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.err, HasSubstr("vocabulary"));
}

TEST_F(DescribeTest, CountsWithTheMachinesOwnNumbers) {
  kernels::MachineSpeed slow;
  slow.threads = 2;
  slow.square_rate = slow.skinny_rate = 1e9;
  ASSERT_OK(SaveCalibration(dir_ + "/cache", CpuMachine(2).name, slow));
  const std::string task = Task({{"method", "DENSE"}});
  const Ended ended = RunTrainer({"--describe", "--task=" + task}, dir_);
  ASSERT_EQ(ended.code, 0) << ended.err;
  const json d = json::parse(ended.out);
  EXPECT_EQ(d["calibrated"], true);
  const double least = d["step"]["multiply_adds"].get<double>() / 1e9;
  EXPECT_GT(d["step"]["seconds"], 0.9 * least);
}

TEST_F(DescribeTest, BadTasksAreRefused) {
  Ended ended = RunTrainer({"--describe", "--task=/nonexistent"}, dir_);
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.err, HasSubstr("/nonexistent"));
  ended = RunTrainer({"--describe"}, dir_);
  EXPECT_NE(ended.code, 0);
  EXPECT_THAT(ended.err, HasSubstr("--task"));
}

}  // namespace
}  // namespace comera::trainer
