// comera-trainer as a process: what it prints, how it exits, what it leaves.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "comera/v1/progress.pb.h"
#include "common/files.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"
#include "worker/collective/gloo_communicator.h"
#include "worker/collective/rendezvous.h"

namespace comera::trainer {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// A child process whose standard output is read line by line.
class Process {
 public:
  // `log`, if not empty, receives its standard error.
  explicit Process(std::vector<std::string> arguments,
                   const std::string& log = "") {
    arguments.insert(arguments.begin(), "worker/trainer/comera-trainer");
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) std::abort();
    pid_ = fork();
    if (pid_ == 0) {
      dup2(ends[1], STDOUT_FILENO);
      if (!log.empty()) {
        dup2(open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644),
             STDERR_FILENO);
      }
      execv(argv[0], argv.data());
      _exit(127);
    }
    close(ends[1]);
    output_ = fdopen(ends[0], "r");
  }
  ~Process() {
    fclose(output_);
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }

  // False at the end of the output.
  bool NextLine(std::string* line) {
    line->clear();
    for (int c; (c = fgetc(output_)) != EOF;) {
      if (c == '\n') return true;
      line->push_back(static_cast<char>(c));
    }
    return false;
  }
  // The bytes that the system keeps for the reader, at least a page.
  void NarrowPipe() { fcntl(fileno(output_), F_SETPIPE_SZ, 1); }
  bool NextEvent(v1::TrainerEvent* event) {
    std::string line;
    if (!NextLine(&line)) return false;
    event->Clear();
    const auto status =
        google::protobuf::util::JsonStringToMessage(line, event);
    EXPECT_TRUE(status.ok()) << line;
    return true;
  }
  std::vector<v1::TrainerEvent> RestOfEvents() {
    std::vector<v1::TrainerEvent> events;
    for (v1::TrainerEvent event; NextEvent(&event);) events.push_back(event);
    return events;
  }
  void Signal(int signal) { kill(pid_, signal); }
  // The exit status; 128 + the signal that ended it.
  int Wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t pid_;
  FILE* output_;
};

class TrainerProcessTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = absl::StrCat(
        ::testing::TempDir(), "/",
        ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(dir_);
    fs::create_directories(dir_ + "/corpus");
    for (int f = 0; f < 12; ++f) {
      std::ofstream file(absl::StrCat(dir_, "/corpus/file", f, ".h"));
      for (int i = 0; i < 40; ++i) {
        file << "int value_" << (i * 7 + f) % 11 << " = function_"
             << (i + f) % 5 << "(argument, " << i % 3 << ");\n";
      }
    }
  }

  std::string TaskFile(const std::string& name, int steps,
                       const std::string& more = "") {
    const std::string json = absl::StrReplaceAll(
        R"({"spec": {
              "model": {"family": "MASKED_LM", "layers": 1, "hidden": 16,
                        "ffn": 32, "heads": 2},
              "data": {"code_directory": {"roots": ["$dir/corpus"],
                                          "globs": ["*.h"],
                                          "validation_fraction": 0.2},
                       "tokenizer": {"kind": "BYTE_BPE",
                                     "train_vocabulary_size": 300},
                       "max_length": 32},
              "compression": {"embedding": {"ranks": [4]},
                              "attention": {"ranks": [4]},
                              "ffn_up": {"ranks": [4]},
                              "ffn_down": {"ranks": [4]},
                              "head": {"ranks": [4]},
                              "output": {"ranks": [4]}},
              "objective": {"early": {"steps": $steps}},
              "optimizer": {"decay": "LINEAR"},
              "training": {"batch_size": 4, "report_every_steps": 1,
                           "validate_every_steps": 5,
                           "compress_gradients": true}},
            "work_dir": "$dir/$name", "threads": 1 $more})",
        {{"$dir", dir_},
         {"$steps", std::to_string(steps)},
         {"$name", name},
         {"$more", more}});
    const std::string path = absl::StrCat(dir_, "/", name, ".json");
    EXPECT_OK(WriteFileAtomically(path, json));
    return path;
  }

  std::string dir_;
};

TEST_F(TrainerProcessTest, AloneFromATaskWithSpecAndWorkDir) {
  Process process({"--task=" + TaskFile("w", 10)});
  const std::vector<v1::TrainerEvent> events = process.RestOfEvents();
  EXPECT_EQ(process.Wait(), 0);
  ASSERT_FALSE(events.empty());
  // Not always first: another thread sends it.
  EXPECT_TRUE(
      std::any_of(events.begin(), events.end(),
                  [](const v1::TrainerEvent& e) { return e.has_heartbeat(); }));
  ASSERT_TRUE(events.back().has_result());
  EXPECT_EQ(events.back().result().outcome(), v1::COMPLETED);
  for (const char* file :
       {"model.safetensors", "config.json", "vocab.json", "merges.txt"}) {
    EXPECT_TRUE(fs::exists(dir_ + "/w/model/" + file)) << file;
  }
}

// Nobody reads the trainer's events: all steps are trained nevertheless, the
// model is there, and what must be reported comes once somebody reads.
TEST_F(TrainerProcessTest, Complaint17_TelemetryIsNeverOnTheStepPath) {
  constexpr int kSteps = 3000;
  Process process({"--task=" + TaskFile("blocked", kSteps)});
  process.NarrowPipe();
  const std::string model = dir_ + "/blocked/model/model.safetensors";
#if defined(__SANITIZE_ADDRESS__) || defined(COMERA_TSAN)
  constexpr absl::Duration kLimit = absl::Minutes(5);
#else
  constexpr absl::Duration kLimit = absl::Seconds(50);
#endif
  const absl::Time limit = absl::Now() + kLimit;
  while (!fs::exists(model) && absl::Now() < limit) {
    absl::SleepFor(absl::Milliseconds(20));
  }
  ASSERT_TRUE(fs::exists(model)) << "training waits for its reader";
  int64_t metrics = 0;
  bool result = false;
  for (const v1::TrainerEvent& event : process.RestOfEvents()) {
    if (event.has_metrics()) ++metrics;
    result = result || event.has_result();
  }
  EXPECT_EQ(process.Wait(), 0);
  EXPECT_TRUE(result);
  // Samples gave way.
  EXPECT_LT(metrics, kSteps);
}

TEST_F(TrainerProcessTest, TwoRanksMeetThroughAFolder) {
  const auto more = [&](int rank) {
    return absl::StrCat(R"(, "rank": )", rank,
                        R"(, "world_size": 2, "rendezvous_dir": ")", dir_,
                        R"(/meet")");
  };
  Process rank0({"--task=" + TaskFile("w0", 10, more(0))});
  Process rank1({"--task=" + TaskFile("w1", 10, more(1))});
  const std::vector<v1::TrainerEvent> events0 = rank0.RestOfEvents();
  const std::vector<v1::TrainerEvent> events1 = rank1.RestOfEvents();
  EXPECT_EQ(rank0.Wait(), 0);
  EXPECT_EQ(rank1.Wait(), 0);
  ASSERT_FALSE(events0.empty());
  EXPECT_TRUE(events0.back().has_result());
  for (const v1::TrainerEvent& event : events1) {
    EXPECT_TRUE(event.has_heartbeat()) << event.ShortDebugString();
  }
  EXPECT_TRUE(fs::exists(dir_ + "/w0/model/model.safetensors"));
  EXPECT_FALSE(fs::exists(dir_ + "/w1/model"));
}

// With a host, as where the members' workers are several.
TEST_F(TrainerProcessTest, MembersOfSeveralMachinesMeetWithAKey) {
  const auto more = [&](int rank) {
    return absl::StrCat(R"(, "host": "127.0.0.1", "rank": )", rank,
                        R"(, "world_size": 2, "rendezvous_dir": ")", dir_,
                        R"(/meet")");
  };
  Process rank0({"--task=" + TaskFile("w0", 10, more(0))});
  Process rank1({"--task=" + TaskFile("w1", 10, more(1))});
  rank0.RestOfEvents();
  rank1.RestOfEvents();
  EXPECT_EQ(rank0.Wait(), 0);
  EXPECT_EQ(rank1.Wait(), 0);
  ASSERT_OK_AND_ASSIGN(collective::FileRendezvous meeting,
                       collective::FileRendezvous::Open(dir_ + "/meet"));
  ASSERT_OK_AND_ASSIGN(const std::string key,
                       meeting.Get("gang-key", absl::ZeroDuration()));
  EXPECT_EQ(key.size(), 32u);
  EXPECT_NE(key, std::string(32, '\0'));
}

TEST_F(TrainerProcessTest, WhoHasNoKeyIsNoMember) {
  ASSERT_OK_AND_ASSIGN(collective::FileRendezvous meeting,
                       collective::FileRendezvous::Open(dir_ + "/meet"));
  Process rank0({"--task=" + TaskFile("w0", 10,
                                      absl::StrCat(R"(, "host": "127.0.0.1",
                        "rank": 0, "world_size": 2, "rendezvous_dir": ")",
                                                   dir_, R"(/meet")"))});
  ASSERT_OK_AND_ASSIGN(const std::string version,
                       meeting.Get("here-0", absl::Minutes(1)));
  ASSERT_OK(meeting.Set("here-1", version));
  collective::GlooOptions stranger;
  stranger.rank = 1;
  stranger.world_size = 2;
  // It takes itself for connected where it listened, and learns of its end.
  auto joined = collective::CreateGlooCommunicator(stranger, &meeting);
  float value = 1;
  EXPECT_FALSE(joined.ok() &&
               (*joined)->AllReduce(absl::MakeSpan(&value, 1)).ok());
  const std::vector<v1::TrainerEvent> events = rank0.RestOfEvents();
  EXPECT_EQ(rank0.Wait(), 1);
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events.back().failure().failure_class(), v1::COLLECTIVE_HANG);
}

TEST_F(TrainerProcessTest, TerminatedWhileItWaitsForOthersItEnds) {
  Process rank0({"--task=" + TaskFile("w0", 10,
                                      absl::StrCat(R"(, "rank": 0,
                        "world_size": 2, "rendezvous_dir": ")",
                                                   dir_, R"(/meet")"))});
  ASSERT_OK_AND_ASSIGN(collective::FileRendezvous meeting,
                       collective::FileRendezvous::Open(dir_ + "/meet"));
  ASSERT_OK(meeting.Get("here-0", absl::Minutes(1)));
  rank0.Signal(SIGTERM);
  const std::vector<v1::TrainerEvent> events = rank0.RestOfEvents();
  EXPECT_EQ(rank0.Wait(), 0);
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events.back().failure().failure_class(), v1::PREEMPTED);
}

TEST_F(TrainerProcessTest, AMemberOfAnotherVersionIsNamed) {
  ASSERT_OK_AND_ASSIGN(collective::FileRendezvous other,
                       collective::FileRendezvous::Open(dir_ + "/meet"));
  ASSERT_OK(other.Set("here-1", "1"));
  Process rank0({"--task=" + TaskFile("w0", 10,
                                      absl::StrCat(R"(, "rank": 0,
                        "world_size": 2, "rendezvous_dir": ")",
                                                   dir_, R"(/meet")"))});
  const std::vector<v1::TrainerEvent> events = rank0.RestOfEvents();
  EXPECT_EQ(rank0.Wait(), 1);
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events.back().failure().failure_class(), v1::COLLECTIVE_HANG);
  EXPECT_THAT(events.back().failure().message(),
              HasSubstr("member 1 runs another version"));
}

TEST_F(TrainerProcessTest, TerminatedItCheckpointsAndResumes) {
  int64_t step = 0;
  // Several times: signals arrive in the midst of any operation.
  for (int round = 0; round < 4; ++round) {
    Process process({"--task=" + TaskFile("w", 100000, R"(, "resume": true)")});
    v1::TrainerEvent event;
    while (!event.has_metrics()) ASSERT_TRUE(process.NextEvent(&event));
    process.Signal(round % 2 == 0 ? SIGTERM : SIGINT);
    int64_t saved = 0;
    for (const v1::TrainerEvent& e : process.RestOfEvents()) {
      EXPECT_FALSE(e.has_result());
      if (e.has_failure()) {
        EXPECT_EQ(e.failure().failure_class(), v1::PREEMPTED);
      }
      if (e.has_checkpoint()) saved = e.checkpoint().step();
    }
    EXPECT_EQ(process.Wait(), 0);
    EXPECT_GT(saved, step) << "round " << round;
    EXPECT_GT(event.metrics().step(), step);
    step = saved;
  }
}

TEST_F(TrainerProcessTest, ALostRankEndsTheOther) {
  const auto more = [&](int rank) {
    return absl::StrCat(R"(, "rank": )", rank,
                        R"(, "world_size": 2, "rendezvous_dir": ")", dir_,
                        R"(/meet")");
  };
  Process rank0({"--task=" + TaskFile("w0", 100000, more(0))});
  Process rank1({"--task=" + TaskFile("w1", 100000, more(1))});
  v1::TrainerEvent event;
  while (!event.has_metrics()) ASSERT_TRUE(rank0.NextEvent(&event));
  rank1.Signal(SIGKILL);
  const std::vector<v1::TrainerEvent> events = rank0.RestOfEvents();
  EXPECT_EQ(rank0.Wait(), 1);
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events.back().failure().failure_class(), v1::COLLECTIVE_HANG);
}

TEST_F(TrainerProcessTest, MistakesAreTheUsers) {
  fs::remove_all(dir_ + "/corpus");
  Process no_corpus({"--task=" + TaskFile("w", 10)});
  std::vector<v1::TrainerEvent> events = no_corpus.RestOfEvents();
  EXPECT_EQ(no_corpus.Wait(), 1);
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events.back().failure().failure_class(), v1::USER);
  EXPECT_THAT(events.back().failure().message(), HasSubstr("corpus"));

  Process no_task({"--task=/nonexistent.json"});
  events = no_task.RestOfEvents();
  EXPECT_EQ(no_task.Wait(), 1);
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events.back().failure().failure_class(), v1::USER);
}

TEST_F(TrainerProcessTest, TooLittleMemoryIsSaid) {
#if defined(__SANITIZE_ADDRESS__) || defined(COMERA_TSAN)
  GTEST_SKIP() << "sanitizers need more memory than any such limit";
#endif
  // A few limits: memory may end anywhere.
  for (int64_t limit : {16 << 20, 24 << 20, 32 << 20}) {
    const std::string path = TaskFile("w", 10);
    ASSERT_OK_AND_ASSIGN(std::string json, ReadFile(path));
    ASSERT_OK(WriteFileAtomically(
        path, absl::StrReplaceAll(
                  json, {{R"("training":)",
                          absl::StrCat(R"("resources": {"memory_bytes": )",
                                       limit, R"(}, "training":)")},
                         {"\"hidden\": 16", "\"hidden\": 1024"},
                         {"\"ffn\": 32", "\"ffn\": 4096"}})));
    Process process({"--task=" + path});
    const std::vector<v1::TrainerEvent> events = process.RestOfEvents();
    EXPECT_EQ(process.Wait(), 1);
    // A heartbeat of another thread may come after the failure.
    EXPECT_TRUE(std::any_of(events.begin(), events.end(),
                            [](const v1::TrainerEvent& event) {
                              return event.failure().failure_class() ==
                                     v1::OUT_OF_MEMORY;
                            }))
        << "of " << events.size() << " events with limit " << limit;
  }
}

TEST_F(TrainerProcessTest, WithoutALimitThePlanIsTheLimit) {
  const std::string path = TaskFile("w", 3);
  for (const std::string& flag : {std::string("--limit_to_plan=on"),
                                  std::string("--limit_to_plan=off")}) {
    const std::string log = dir_ + "/log";
    Process process({"--task=" + path, flag}, log);
    const std::vector<v1::TrainerEvent> events = process.RestOfEvents();
    EXPECT_EQ(process.Wait(), 0);
    ASSERT_FALSE(events.empty());
    EXPECT_TRUE(events.back().has_result());
    ASSERT_OK_AND_ASSIGN(const std::string text, ReadFile(log));
    EXPECT_EQ(absl::StrContains(text, "memory limit bytes="),
              flag == "--limit_to_plan=on")
        << text;
    fs::remove_all(dir_ + "/w");
  }
}

TEST_F(TrainerProcessTest, ABatchThatFitsIsTold) {
#if defined(__SANITIZE_ADDRESS__) || defined(COMERA_TSAN)
  GTEST_SKIP() << "sanitizers need more memory than any such limit";
#endif
  const std::string path = TaskFile("w", 10);
  ASSERT_OK_AND_ASSIGN(std::string json, ReadFile(path));
  ASSERT_OK(WriteFileAtomically(
      path, absl::StrReplaceAll(
                json, {{R"("training":)",
                        R"("resources": {"memory_bytes": 200000000},)"
                        R"( "training":)"},
                       {R"("batch_size": 4)", R"("batch_size": 100000)"}})));
  Process process({"--task=" + path});
  const std::vector<v1::TrainerEvent> events = process.RestOfEvents();
  EXPECT_EQ(process.Wait(), 1);
  ASSERT_FALSE(events.empty());
  const v1::Failure& failure = events.back().failure();
  EXPECT_EQ(failure.failure_class(), v1::OUT_OF_MEMORY);
  EXPECT_THAT(failure.message(), HasSubstr("would fit, 100000 does not"));
}

TEST_F(TrainerProcessTest, VersionAndHelp) {
  std::string line;
  Process version({"--version"});
  ASSERT_TRUE(version.NextLine(&line));
  EXPECT_THAT(line, HasSubstr("comera-trainer 0"));
  EXPECT_EQ(version.Wait(), 0);
  Process help({"--help"});
  ASSERT_TRUE(help.NextLine(&line));
  EXPECT_EQ(help.Wait(), 0);
  Process nothing({});
  EXPECT_NE(nothing.Wait(), 0);
}

}  // namespace
}  // namespace comera::trainer
