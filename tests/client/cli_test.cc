// Runs verbs of the CLI in this process against a fake TrainingService.

#include "client/cli/main/cli.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/files.h"
#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/client/fake_training_service.h"

namespace comera::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

struct Outcome {
  int code;
  std::string out;
  std::string err;
};

class CliTest : public ::testing::Test {
 protected:
  void TearDown() override { service_.Shutdown(); }

  // Runs `comera ARGS`, split at spaces, against the fake if it was started.
  Outcome Run(const std::string& args, bool terminal = false) {
    std::ostringstream out;
    std::ostringstream err;
    Environment environment;
    environment.out = &out;
    environment.err = &err;
    environment.out_is_terminal = terminal;
    environment.server = address_;
    environment.working_folder = Folder();
    environment.state_folder = absl::StrCat(Folder(), "/state");
    environment.binary_folder = "/nonexistent";
    std::vector<std::string> split =
        absl::StrSplit(args, ' ', absl::SkipEmpty());
    // A word that is being typed may be empty.
    if (!args.empty() && args.back() == ' ') split.push_back("");
    service_.Settle();
    const int code = RunCli(split, environment);
    service_.Settle();
    return {code, out.str(), err.str()};
  }

  void Serve() { address_ = service_.Start(); }

  // Serves a job that ends with this state and outcome, which it has from the
  // start.
  void ServeJob(v1::JobState state, v1::Outcome outcome) {
    service_.get_job = [=](const v1::GetJobRequest& request, v1::Job* job) {
      Fill(request.name(), state, outcome, job);
      return grpc::Status::OK;
    };
    service_.watch_job = [=](const v1::WatchJobRequest& request,
                             grpc::ServerContext*, auto* writer) {
      v1::WatchJobResponse response;
      Fill(request.name(), v1::RUNNING, v1::OUTCOME_UNSPECIFIED,
           response.mutable_job());
      writer->Write(response);
      response.Clear();
      response.mutable_event()->set_job(request.name());
      response.mutable_event()->set_sequence(1);
      auto* metrics = response.mutable_event()->mutable_metrics();
      metrics->set_step(5);
      metrics->set_total_steps(10);
      writer->Write(response);
      response.mutable_event()->set_sequence(2);
      auto* change = response.mutable_event()->mutable_state_change();
      change->set_state(state);
      change->set_outcome(outcome);
      writer->Write(response);
      return grpc::Status::OK;
    };
    Serve();
  }

  static void Fill(const std::string& name, v1::JobState state,
                   v1::Outcome outcome, v1::Job* job) {
    job->set_name(name);
    job->set_state(state);
    job->set_outcome(outcome);
    job->mutable_create_time()->set_seconds(1700000000);
  }

  static std::string Folder() { return std::getenv("TEST_TMPDIR"); }

  static std::string GoodFile() {
    const std::string path = absl::StrCat(Folder(), "/job.yaml");
    std::ofstream(path) << R"(
model: {family: masked_lm, layers: 2, hidden: 48, heads: 4}
data:
  code_directory: {roots: [/usr/include], globs: ["*.h"]}
  tokenizer: {kind: byte_bpe, train_vocabulary_size: 1000}
  max_length: 64
objective: {early: {steps: 10}}
training: {batch_size: 8}
)";
    return path;
  }

  FakeTrainingService service_;
  std::string address_;
};

TEST_F(CliTest, UsageErrorsAre2AndSuggest) {
  EXPECT_EQ(Run("").code, 2);
  EXPECT_THAT(Run("").err, HasSubstr("Usage:"));
  for (const auto& [args, said] :
       std::vector<std::pair<std::string, std::string>>{
           {"sumbit x", "unknown verb `sumbit` (did you mean `submit`?)"},
           {"frobnicate", "unknown verb `frobnicate`;"},
           {"ls --limt 3", "unknown flag `--limt` (did you mean `--limit`?)"},
           {"get", "job is required"},
           {"get a b", "unexpected argument `b`"},
           {"get Not_An_Id", "is no job id"},
           {"ls --state happy", "--state happy is none of queued"},
           {"ls --limit many", "many"},
           {"ls -o xml", "xml"},
           {"ls --timeout never", "--timeout never is no duration"},
           {"completion tcsh", "tcsh"},
           {"logs a --rank -1", "must not be negative"}}) {
    const Outcome outcome = Run(args);
    EXPECT_EQ(outcome.code, 2) << args;
    EXPECT_EQ(outcome.out, "") << args;
    EXPECT_THAT(outcome.err, HasSubstr(said)) << args;
  }
}

TEST_F(CliTest, HelpAndVersionAreResults) {
  for (const char* args : {"--help", "run --help", "--version", "version",
                           "version -o json", "version -o yaml"}) {
    const Outcome outcome = Run(args);
    EXPECT_EQ(outcome.code, 0) << args;
    EXPECT_NE(outcome.out, "") << args;
    EXPECT_EQ(outcome.err, "") << args;
  }
}

TEST_F(CliTest, CompletionScriptsAskTheProgram) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const Outcome outcome = Run(absl::StrCat("completion ", shell));
    EXPECT_EQ(outcome.code, 0);
    EXPECT_THAT(outcome.out, HasSubstr("__complete")) << shell;
  }
}

TEST_F(CliTest, CompletesNamesThatTheCoordinatorKnows) {
  service_.list_jobs = [](const v1::ListJobsRequest& request,
                          v1::ListJobsResponse* response) {
    EXPECT_EQ(request.view(), v1::JOB_VIEW_BASIC);
    EXPECT_EQ(request.states_size(), 1);
    EXPECT_EQ(request.states(0), v1::PAUSED);
    Fill("jobs/abc", v1::PAUSED, v1::OUTCOME_UNSPECIFIED, response->add_jobs());
    response->mutable_jobs(0)->mutable_spec()->set_display_name("a\nb");
    Fill("jobs/xyz", v1::PAUSED, v1::OUTCOME_UNSPECIFIED, response->add_jobs());
    return grpc::Status::OK;
  };
  Serve();
  EXPECT_EQ(Run("__complete resume a").out, "words\nabc\tPAUSED a b\n");
  EXPECT_EQ(Run("__complete resume jobs/x").out, "words\njobs/xyz\tPAUSED \n");
  // Completion asks the server that the command line names, where nothing
  // listens.
  EXPECT_EQ(Run("__complete --server 127.0.0.1:1 resume a").out, "words\n");
}

TEST_F(CliTest, EveryVerbHasExamplesAndAPage) {
  const Outcome all = Run("help");
  EXPECT_EQ(all.code, 0);
  EXPECT_EQ(all.out, Run("--help").out);
  const std::string folder = absl::StrCat(Folder(), "/man");
  EXPECT_EQ(Run("help --man " + folder).code, 0);
  int verbs = 0;
  for (const std::string& line : std::vector<std::string>(
           absl::StrSplit(Run("__complete ").out, '\n', absl::SkipEmpty()))) {
    const std::string verb = line.substr(0, line.find('\t'));
    if (verb == "words") continue;
    ++verbs;
    const std::string help = Run("help " + verb).out;
    EXPECT_EQ(help, Run(verb + " --help").out);
    EXPECT_THAT(help, HasSubstr("Usage: comera " + verb));
    EXPECT_THAT(help, HasSubstr("Examples:\n  comera " + verb))
        << verb << ": its examples begin with it";
    ASSERT_OK_AND_ASSIGN(
        const std::string page,
        ReadFile(absl::StrCat(folder, "/comera-", verb, ".1")));
    EXPECT_THAT(page, HasSubstr(".SH EXAMPLES")) << verb;
  }
  EXPECT_GT(verbs, 30);
  EXPECT_EQ(Run("help wath").code, 2);
  EXPECT_THAT(Run("help wath").err, HasSubstr("did you mean `watch`"));
}

TEST_F(CliTest, ColoursAndColumnsAsAskedFor) {
  service_.list_jobs = [](const v1::ListJobsRequest&,
                          v1::ListJobsResponse* response) {
    Fill("jobs/abc", v1::FAILED, v1::OUTCOME_UNSPECIFIED, response->add_jobs());
    return grpc::Status::OK;
  };
  Serve();
  EXPECT_EQ(Run("ls --columns state,id --no-headers").out,
            "FAILED (FAILURE_CLASS_UNSPECIFIED)  abc\n");
  EXPECT_THAT(Run("ls --color always").out, HasSubstr("\x1b[31mFAILED"));
  EXPECT_THAT(Run("ls --color never").out, Not(HasSubstr("\x1b")));
  const Outcome unknown = Run("ls --columns id,lost");
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("no column `lost`; there are: ID, NAME"));
  EXPECT_EQ(unknown.out, "");
}

TEST_F(CliTest, RpcErrorsHaveTheirCodes) {
  struct Row {
    grpc::StatusCode status;
    int code;
  };
  grpc::StatusCode answer = grpc::StatusCode::OK;
  service_.get_job = [&](const v1::GetJobRequest&, v1::Job*) {
    return grpc::Status(answer, "because");
  };
  Serve();
  for (const Row& row : {Row{grpc::StatusCode::INTERNAL, 1},
                         Row{grpc::StatusCode::PERMISSION_DENIED, 4},
                         Row{grpc::StatusCode::UNAUTHENTICATED, 4},
                         Row{grpc::StatusCode::NOT_FOUND, 5}}) {
    answer = row.status;
    const Outcome outcome = Run("get a");
    EXPECT_EQ(outcome.code, row.code);
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, HasSubstr("because"));
  }
  // Nothing listens on port 1. The flag wins over the environment.
  const Outcome away = Run("get a --server 127.0.0.1:1 --timeout 100ms");
  EXPECT_EQ(away.code, 3);
  EXPECT_THAT(away.err, HasSubstr("cannot reach the coordinator"));
}

TEST_F(CliTest, AJobBeginsAnewOnlyIfToldSo) {
  std::vector<bool> asked;
  service_.resume_job = [&](const v1::ResumeJobRequest& request, v1::Job* job) {
    asked.push_back(request.start_over());
    job->set_name(request.name());
    job->set_state(v1::QUEUED);
    return grpc::Status::OK;
  };
  Serve();
  EXPECT_THAT(Run("resume a").out, Not(HasSubstr("step 0")));
  const Outcome anew = Run("resume a --start-over");
  EXPECT_EQ(anew.code, 0);
  EXPECT_THAT(anew.out, HasSubstr("jobs/a QUEUED, to begin at step 0"));
  EXPECT_EQ(asked, (std::vector<bool>{false, true}));
  EXPECT_THAT(Run("resume --help").out, HasSubstr("--start-over"));
}

TEST_F(CliTest, AWorkerIsForgottenByItsName) {
  std::string asked;
  service_.delete_worker = [&](const v1::DeleteWorkerRequest& request,
                               v1::DeleteWorkerResponse*) {
    asked = request.name();
    return request.name() == "workers/node-2"
               ? grpc::Status(grpc::StatusCode::FAILED_PRECONDITION,
                              "workers/node-2 is connected: stop it first")
               : grpc::Status::OK;
  };
  Serve();
  const Outcome gone = Run("workers --forget node-1");
  EXPECT_EQ(gone.code, 0) << gone.err;
  EXPECT_EQ(gone.out, "workers/node-1\n");
  EXPECT_EQ(asked, "workers/node-1");
  const Outcome there = Run("workers --forget node-2");
  EXPECT_NE(there.code, 0);
  EXPECT_THAT(there.err, HasSubstr("is connected"));
  EXPECT_EQ(Run("workers node-3 --forget node-1").code, 2);
  EXPECT_EQ(Run("workers --forget No_Name!").code, 2);
}

TEST_F(CliTest, ValidateNamesEveryBadField) {
  const std::string file = GoodFile();
  EXPECT_EQ(Run("validate " + file).code, 0);
  EXPECT_EQ(Run("validate " + file).out, "");
  const Outcome bad = Run("validate " + file +
                          " --set model.heads=5 --set training.batch_size=0");
  EXPECT_EQ(bad.code, 1);
  EXPECT_EQ(bad.out, "");
  EXPECT_THAT(bad.err, HasSubstr("job.yaml: model.heads: 5 heads"));
  EXPECT_THAT(bad.err, HasSubstr("training.batch_size"));
  EXPECT_EQ(Run("validate /nonexistent.yaml").code, 1);
  EXPECT_EQ(Run("validate " + file + " --set nonsense").code, 1);
  // All mistakes, with their lines: unread fields, modes, sizes and targets.
  const std::string wrong =
      absl::StrCat(std::getenv("TEST_TMPDIR"), "/wrong.yaml");
  std::ofstream(wrong) << "model:\n  family: masked_lm\n  layers: two\n"
                          "  hidden: 48\n  heads: 5\n"
                          "data:\n  code_directory: {roots: [/usr]}\n"
                          "  tokenizer: {kind: byte_bpe, vocabulary: 9}\n"
                          "compression:\n  attention: {input_modes: [5, 9], "
                          "output_modes: [6, 8]}\n"
                          "training: {validation_samples: 0}\n";
  const Outcome many = Run("validate " + wrong);
  EXPECT_EQ(many.code, 1);
  EXPECT_THAT(many.err, HasSubstr("wrong.yaml:3: model.layers: `two`"));
  EXPECT_THAT(many.err, HasSubstr("wrong.yaml:5: model.heads: 5 heads"));
  EXPECT_THAT(many.err,
              HasSubstr("wrong.yaml:10: compression.attention.input_modes"));
  EXPECT_THAT(many.err, HasSubstr("wrong.yaml:11: training.validation_samples: "
                                  "is missing or 0"));
  // What was not read is not missing too.
  EXPECT_THAT(many.err, Not(HasSubstr("model.layers: is missing")));
  const Outcome printed = Run("validate -o json --print " + file);
  EXPECT_EQ(nlohmann::json::parse(printed.out)["queue"], "default");
}

TEST_F(CliTest, ValidateAsksWhenTheJobWouldStart) {
  v1::Forecast forecast;
  service_.create_job = [&](const v1::CreateJobRequest& request, v1::Job* job) {
    EXPECT_TRUE(request.validate_only());
    *job->mutable_forecast() = forecast;
    return grpc::Status::OK;
  };
  Serve();
  forecast.set_processes_now(2);
  EXPECT_THAT(Run("validate --remote " + GoodFile()).err,
              HasSubstr("valid, would start now with 2 processes"));
  forecast.Clear();
  forecast.set_position(1);
  forecast.set_blocked_by("waiting for 4 CPU slots, the cluster has 2");
  EXPECT_THAT(Run("validate --remote " + GoodFile()).err,
              HasSubstr("valid, would wait behind 1 job: waiting for 4 CPU "
                        "slots, the cluster has 2"));
}

TEST_F(CliTest, NumbersOfQueuesAreNotNegative) {
  Serve();
  const Outcome guaranteed = Run("queues create vision --guaranteed -1");
  EXPECT_EQ(guaranteed.code, 2);
  EXPECT_THAT(guaranteed.err, HasSubstr("--guaranteed must be 0 to "));
  EXPECT_EQ(Run("queues update vision --max -5").code, 2);
}

TEST_F(CliTest, SubmitTellsWhereSweepsGo) {
  const std::string sweep =
      absl::StrCat(std::getenv("TEST_TMPDIR"), "/sweep.yaml");
  std::ofstream(sweep) << "sweep: {grid: {seeds: [1, 2]}}\n"
                          "model: {family: masked_lm, layers: 2}\n";
  const Outcome submitted = Run("submit " + sweep);
  EXPECT_EQ(submitted.code, 1);
  EXPECT_THAT(submitted.err, HasSubstr("comera sweep " + sweep));
}

TEST_F(CliTest, SubmitPrintsTheName) {
  service_.create_job = [](const v1::CreateJobRequest& request, v1::Job* job) {
    EXPECT_EQ(request.request_id(), "key");
    EXPECT_EQ(request.spec().model().layers(), 3);
    job->set_name("jobs/abc");
    return grpc::Status::OK;
  };
  Serve();
  const Outcome outcome =
      Run("submit --request-id key --set model.layers=3 " + GoodFile());
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "jobs/abc\n");
  EXPECT_THAT(outcome.err, HasSubstr("comera watch abc"));
}

TEST_F(CliTest, JobsThatEndGiveTheirCodes) {
  struct Row {
    v1::JobState state;
    v1::Outcome outcome;
    int code;
  };
  for (const Row& row : {Row{v1::SUCCEEDED, v1::TARGET_MET, 0},
                         Row{v1::SUCCEEDED, v1::COMPLETED, 0},
                         Row{v1::SUCCEEDED, v1::TARGET_MISSED, 104},
                         Row{v1::FAILED, v1::OUTCOME_UNSPECIFIED, 100},
                         Row{v1::CANCELLED, v1::OUTCOME_UNSPECIFIED, 103}}) {
    FakeTrainingService::Unary<v1::GetJobRequest, v1::Job> get =
        [=](const v1::GetJobRequest& request, v1::Job* job) {
          Fill(request.name(), row.state, row.outcome, job);
          return grpc::Status::OK;
        };
    service_.get_job = get;
    service_.watch_job = [=](const v1::WatchJobRequest& request,
                             grpc::ServerContext*, auto* writer) {
      v1::WatchJobResponse response;
      Fill(request.name(), row.state, row.outcome, response.mutable_job());
      writer->Write(response);
      return grpc::Status::OK;
    };
    if (address_.empty()) Serve();
    EXPECT_EQ(Run("wait abc").code, row.code);
    EXPECT_EQ(Run("watch jobs/abc").code, row.code);
  }
}

TEST_F(CliTest, WatchWritesLinesOrCleanJsonLines) {
  ServeJob(v1::SUCCEEDED, v1::TARGET_MET);
  const Outcome plain = Run("watch abc");
  EXPECT_EQ(plain.code, 0);
  EXPECT_THAT(plain.out, StartsWith("step 5/10"));
  EXPECT_THAT(plain.out, HasSubstr("\nSUCCEEDED TARGET_MET\n"));
  EXPECT_THAT(plain.out, HasSubstr("outcome"));
  EXPECT_EQ(plain.out.find('\x1b'), std::string::npos);

  const Outcome json = Run("watch abc -o json");
  std::vector<std::string> lines =
      absl::StrSplit(json.out, '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), 2u) << json.out;
  EXPECT_EQ(nlohmann::json::parse(lines[0])["metrics"]["total_steps"], 10);
  EXPECT_EQ(nlohmann::json::parse(lines[1])["state_change"]["outcome"],
            "TARGET_MET");
}

TEST_F(CliTest, WaitThatTimesOutIs101) {
  service_.watch_job = [](const v1::WatchJobRequest& request,
                          grpc::ServerContext* context, auto* writer) {
    v1::WatchJobResponse response;
    Fill(request.name(), v1::RUNNING, v1::OUTCOME_UNSPECIFIED,
         response.mutable_job());
    writer->Write(response);
    while (!context->IsCancelled()) std::this_thread::yield();
    return grpc::Status::CANCELLED;
  };
  Serve();
  const Outcome outcome = Run("wait abc --timeout 300ms");
  EXPECT_EQ(outcome.code, 101) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("jobs/abc is RUNNING after 300ms"));
}

TEST_F(CliTest, LsShowsAlignedColumnsOrJson) {
  service_.list_jobs = [](const v1::ListJobsRequest& request,
                          v1::ListJobsResponse* response) {
    EXPECT_EQ(request.states_size(), 2);
    v1::Job* job = response->add_jobs();
    Fill("jobs/abc", v1::RUNNING, v1::OUTCOME_UNSPECIFIED, job);
    job->mutable_spec()->set_display_name("evil\x1b[2J");
    job->mutable_spec()->mutable_resources()->set_processes(2);
    job->mutable_progress()->set_step(25);
    job->mutable_progress()->set_total_steps(100);
    return grpc::Status::OK;
  };
  Serve();
  const Outcome table = Run("ls --state running --state queued");
  EXPECT_EQ(table.code, 0) << table.err;
  EXPECT_THAT(table.out, StartsWith("ID "));
  EXPECT_THAT(table.out, HasSubstr("25/25%"));
  EXPECT_THAT(table.out, HasSubstr("2/2"));
  EXPECT_EQ(table.out.find('\x1b'), std::string::npos);
  const Outcome json = Run("ls --state running --state queued -o json");
  const auto jobs = nlohmann::json::parse(json.out)["jobs"];
  EXPECT_EQ(jobs[0]["name"], "jobs/abc");
  EXPECT_EQ(jobs[0]["create_time"], "2023-11-14T22:13:20Z");
}

TEST_F(CliTest, ListFiltersOnTheServer) {
  v1::ListJobsRequest asked;
  service_.list_jobs = [&](const v1::ListJobsRequest& request,
                           v1::ListJobsResponse* response) {
    asked = request;
    Fill("jobs/abc", v1::RUNNING, v1::OUTCOME_UNSPECIFIED,
         response->add_jobs());
    response->set_next_page_token("more");
    response->set_total_size(7);
    return grpc::Status::OK;
  };
  Serve();
  const Outcome table = Run(
      "ls --queue fast --user alice --label team=nlp --label a=b --search Mnli "
      "--limit 1");
  EXPECT_EQ(table.code, 0) << table.err;
  EXPECT_THAT(table.err, HasSubstr("1 of 7 jobs"));
  EXPECT_EQ(asked.queue(), "fast");
  EXPECT_EQ(asked.user(), "alice");
  EXPECT_EQ(asked.labels().at("team"), "nlp");
  EXPECT_EQ(asked.labels().at("a"), "b");
  EXPECT_EQ(asked.text(), "Mnli");
  EXPECT_EQ(asked.page_size(), 1);
  EXPECT_EQ(asked.view(), v1::JOB_VIEW_BASIC);
  // Programs get all fields of each job.
  const Outcome json = Run("ls --limit 1 -o json");
  EXPECT_EQ(asked.view(), v1::JOB_VIEW_UNSPECIFIED);
  EXPECT_EQ(nlohmann::json::parse(json.out)["total_size"], 7);
  EXPECT_EQ(json.err, "");
  EXPECT_EQ(Run("ls --label nonsense").code, 2);
}

TEST_F(CliTest, GetCancelAndLogs) {
  service_.cancel_job = [](const v1::CancelJobRequest& request, v1::Job* job) {
    EXPECT_EQ(request.reason(), "why");
    Fill(request.name(), v1::CANCELLING, v1::OUTCOME_UNSPECIFIED, job);
    return grpc::Status::OK;
  };
  service_.read_log = [](const v1::ReadLogRequest& request,
                         grpc::ServerContext*, auto* writer) {
    EXPECT_EQ(request.rank(), 1);
    EXPECT_TRUE(request.follow());
    v1::ReadLogResponse response;
    response.set_data("line\n");
    writer->Write(response);
    return grpc::Status::OK;
  };
  ServeJob(v1::RUNNING, v1::OUTCOME_UNSPECIFIED);
  EXPECT_EQ(Run("cancel abc --reason why").out, "jobs/abc CANCELLING\n");
  EXPECT_EQ(Run("logs abc --rank 1 -f").out, "line\n");
  EXPECT_THAT(Run("get abc").out, HasSubstr("state    RUNNING\n"));
  EXPECT_THAT(Run("get abc -o yaml").out, HasSubstr("\nname: jobs/abc\n"));
}

TEST_F(CliTest, ALogCommandsNoTerminalAndIsRawElsewhere) {
  service_.read_log = [](const v1::ReadLogRequest&, grpc::ServerContext*,
                         auto* writer) {
    // One piece ends, and the next begins, within U+009B.
    int64_t offset = 0;
    for (const std::string data : {"a\x1b]52;c;cm0=\x07\n", "b\xc2",
                                   "\x9b"
                                   "2J\tc"}) {
      v1::ReadLogResponse response;
      response.set_offset(offset);
      response.set_data(data);
      writer->Write(response);
      offset += static_cast<int64_t>(data.size());
    }
    return grpc::Status::OK;
  };
  Serve();
  EXPECT_EQ(Run("logs abc", /*terminal=*/true).out, "a ]52;c;cm0= \nb  2J\tc");
  EXPECT_EQ(Run("logs abc").out,
            "a\x1b]52;c;cm0=\x07\nb\xc2\x9b"
            "2J\tc");
}

TEST_F(CliTest, NotesAndErrorsCommandNoTerminal) {
  std::ostringstream err;
  Environment environment;
  environment.err = &err;
  const Session session(environment);
  session.Note("its log ends:\nx\x1b[2J");
  EXPECT_EQ(session.Fail("\x1b]0;title\x07", 7), 7);
  EXPECT_EQ(err.str(), "its log ends:\nx [2J\ncomera:  ]0;title \n");
}

TEST_F(CliTest, FormerNamesAreReadWithOneNoteEach) {
  service_.read_log = [](const v1::ReadLogRequest& request,
                         grpc::ServerContext*, auto*) {
    EXPECT_EQ(request.attempt(), 2);
    return grpc::Status::OK;
  };
  Serve();
  const Outcome logs = Run("logs abc --epoch 2");
  EXPECT_EQ(logs.code, 0);
  EXPECT_EQ(logs.err,
            "--epoch is now called --attempt; the old name is still read\n");
  EXPECT_EQ(Run("logs abc --attempt 2").err, "");
  EXPECT_THAT(Run("help logs").out, Not(HasSubstr("--epoch")));

  const std::string file = GoodFile();
  std::ofstream(file, std::ios::app) << "resources: {ranks: 2}\n";
  const Outcome validated =
      Run("validate " + file + " --set resources.threads_per_rank=1");
  EXPECT_EQ(validated.code, 0);
  EXPECT_THAT(validated.err,
              HasSubstr(": resources.ranks is now called resources.processes"));
  EXPECT_THAT(validated.err, HasSubstr("resources.threads_per_process; the"));
}

TEST_F(CliTest, ModelsAreListedAndDownloaded) {
  const std::string contents = "weights";
  std::string file_name = "model.safetensors";
  service_.get_job = [&](const v1::GetJobRequest& request, v1::Job* job) {
    Fill(request.name(), v1::SUCCEEDED, v1::TARGET_MET, job);
    v1::Artifact* model = job->add_models();
    model->set_name("jobs/abc/models/final");
    v1::ArtifactFile* file = model->add_files();
    file->set_path(file_name);
    file->set_size_bytes(contents.size());
    file->set_sha256(Sha256Hex(contents));
    return grpc::Status::OK;
  };
  service_.download = [&](const v1::DownloadArtifactRequest&,
                          grpc::ServerContext*, auto* writer) {
    v1::DownloadArtifactResponse response;
    response.set_data(contents);
    writer->Write(response);
    return grpc::Status::OK;
  };
  Serve();
  EXPECT_THAT(Run("models abc").out, HasSubstr("final"));
  const std::string folder = absl::StrCat(Folder(), "/models/abc");
  EXPECT_EQ(Run("models abc --download " + folder).code, 0);
  ASSERT_OK_AND_ASSIGN(const std::string got,
                       ReadFile(folder + "/model.safetensors"));
  EXPECT_EQ(got, contents);
  EXPECT_EQ(Run("models abc --model other --download " + folder).code, 5);
  // Another model is overwritten by force only.
  std::ofstream(folder + "/model.safetensors") << "another";
  const Outcome refused = Run("models abc --download " + folder);
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, HasSubstr("another model: its model.safetensors"));
  ASSERT_OK_AND_ASSIGN(const std::string kept,
                       ReadFile(folder + "/model.safetensors"));
  EXPECT_EQ(kept, "another");
  EXPECT_EQ(Run("models abc --force --download " + folder).code, 0);
  ASSERT_OK_AND_ASSIGN(const std::string forced,
                       ReadFile(folder + "/model.safetensors"));
  EXPECT_EQ(forced, contents);
  // A server must not be able to write elsewhere.
  file_name = "../escaped";
  EXPECT_EQ(Run("models abc --download " + folder).code, 1);
  service_.Shutdown();
  EXPECT_THAT(ReadFile(absl::StrCat(Folder(), "/models/escaped")),
              StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(CliTest, ModelsDoesOneThingAtATime) {
  Serve();
  for (const char* both : {"--delete --pin", "--alias a@b --unpin",
                           "--describe --download folder"}) {
    const Outcome outcome = Run(absl::StrCat("models abc --model m ", both));
    EXPECT_EQ(outcome.code, 2) << both;
    EXPECT_THAT(outcome.err, HasSubstr("exclude each other")) << both;
  }
}

TEST_F(CliTest, RunLooksAtTheModelsFolderBeforeItTrains) {
  const std::string file = absl::StrCat(Folder(), "/a-file");
  std::ofstream(file) << "x";
  const Outcome no_folder =
      Run(absl::StrCat("run ", GoodFile(), " --model-dir ", file, "/model"));
  EXPECT_EQ(no_folder.code, 1);
  EXPECT_THAT(no_folder.err, HasSubstr("a-file is no folder"));
  const std::string taken = absl::StrCat(Folder(), "/taken");
  std::filesystem::create_directories(taken);
  std::ofstream(taken + "/config.json") << "{}";
  const Outcome other =
      Run(absl::StrCat("run ", GoodFile(), " --model-dir ", taken));
  EXPECT_EQ(other.code, 1);
  EXPECT_THAT(other.err, HasSubstr("has a model already"));
}

TEST_F(CliTest, RunSaysWhichProgramIsMissing) {
  const Outcome outcome = Run("run " + GoodFile());
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("cannot find comera-server"));
}

TEST_F(CliTest, RunWaitsUntilTheJobThatGoesOnIsNoLongerCancelled) {
  const auto script = [](const std::string& name, const std::string& body) {
    const std::string path = absl::StrCat(Folder(), "/", name);
    std::ofstream(path) << "#!/bin/sh\n" << body << "\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  };
  const Outcome outcome = Run(absl::StrCat(
      "run --resume stopping --data-dir ", Folder(), "/stopping",
      " --server-binary ",
      std::filesystem::absolute("tests/client/fake_server").string(),
      " --worker-binary ", script("worker", "exec tail -f /dev/null"),
      " --trainer-binary ", script("trainer", "exit 0")));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("resumed jobs/stopping"));
}

TEST_F(CliTest, RunReadsUrlsThatTheCommandLineAllows) {
  const std::string run = absl::StrCat(
      "run ", GoodFile(), " --set data.text.train=[s3://corpora/v/w.txt]");
  for (const char* flags :
       {"", " --data-url=s3://other/", " --data-url=s3://corpora/x",
        " --data-url=https://corpora/v/"}) {
    const Outcome refused = Run(run + flags);
    EXPECT_EQ(refused.code, 1) << flags;
    EXPECT_THAT(refused.err, AllOf(HasSubstr("data.text.train[0]"),
                                   HasSubstr("s3://corpora/v/w.txt"),
                                   HasSubstr("--data-url")));
  }
  // The next thing that is missing.
  EXPECT_THAT(Run(run + " --data-url=https://h/ --data-url=s3://corpora/v").err,
              HasSubstr("cannot find comera-server"));
  EXPECT_THAT(Run("run " + GoodFile() + " --data-url=ftp://h/").err,
              HasSubstr("--data-url: "));
}

}  // namespace
}  // namespace comera::client
