// Checks exports to TensorBoard and MLflow: records, events, runs, resuming.

#include <cmath>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "client/export/flat_spec.h"
#include "client/export/mlflow_run.h"
#include "client/export/record_file.h"
#include "client/export/tensorboard_events.h"
#include "client/export/tensorboard_run.h"
#include "common/files.h"
#include "common/status_matchers.h"
#include "gtest/gtest.h"

namespace comera::client {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Pair;

std::string Folder(const std::string& name) {
  return absl::StrCat(std::getenv("TEST_TMPDIR"), "/", name);
}

v1::Job TestJob() {
  v1::Job job;
  job.set_name("jobs/abc");
  job.set_state(v1::RUNNING);
  job.mutable_create_time()->set_seconds(1700000000);
  job.mutable_spec()->set_display_name("night");
  (*job.mutable_spec()->mutable_labels())["team/a"] = "nlp";
  job.mutable_spec()->mutable_model()->set_layers(2);
  job.mutable_spec()->mutable_compression()->mutable_attention()->add_ranks(8);
  job.mutable_spec()->mutable_compression()->mutable_attention()->add_ranks(16);
  return job;
}

v1::JobEvent Metrics(int64_t sequence, int64_t step, double loss) {
  v1::JobEvent event;
  event.set_sequence(sequence);
  event.set_attempt(1);
  event.mutable_time()->set_seconds(1700000000 + step);
  event.mutable_metrics()->set_step(step);
  event.mutable_metrics()->set_loss(loss);
  return event;
}

v1::JobEvent Attempt(int64_t sequence, int64_t attempt, int64_t resumed_from) {
  v1::JobEvent event;
  event.set_sequence(sequence);
  event.set_attempt(attempt);
  event.mutable_run_info()->set_resumed_from_step(resumed_from);
  return event;
}

TEST(RecordFile, ChecksumsAreCastagnolis) {
  // The values of RFC 3720, B.4.
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(Crc32c(std::string(32, '\xFF')), 0x62A8AB43u);
  EXPECT_EQ(Crc32c("123456789"), 0xE3069283u);
}

TEST(RecordFile, DropsWhatAnInterruptedWriterLeft) {
  const std::string path = Folder("records");
  int64_t size = 0;
  {
    ASSERT_OK_AND_ASSIGN(auto file, RecordFile::Open(path, 0));
    file->Append("one");
    ASSERT_OK(file->Flush());
    size = file->size();
    file->Append("lost");
    ASSERT_OK(file->Flush());
    // Only one process may write the file.
    EXPECT_THAT(RecordFile::Open(path, 0),
                StatusIs(absl::StatusCode::kFailedPrecondition));
  }
  ASSERT_OK_AND_ASSIGN(auto file, RecordFile::Open(path, size));
  file->Append("two");
  ASSERT_OK(file->Flush());
  ASSERT_OK_AND_ASSIGN(const std::string contents, ReadFile(path));
  EXPECT_EQ(contents, Record("one") + Record("two"));
  EXPECT_THAT(RecordFile::Open(path, 1000),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST(FlatSpec, NamesEveryFieldAndFillsDefaults) {
  const auto values = FlattenSpec(TestJob().spec());
  EXPECT_THAT(values, Contains(Pair("model.layers", "2")));
  EXPECT_THAT(values, Contains(Pair("labels.team/a", "nlp")));
  EXPECT_THAT(values, Contains(Pair("compression.attention.ranks", "8,16")));
  EXPECT_THAT(values, Contains(Pair("compression.method", "COMERA")));
  EXPECT_THAT(values, Contains(Pair("queue", "default")));
}

TEST(TensorBoard, HistogramsCountEveryValueOnce) {
  for (const std::vector<double>& values :
       {std::vector<double>{3}, {1, 1, 4, 2}, {0, 1000, 37, 999, 500}}) {
    const auto histogram = HistogramOf(values);
    double count = 0;
    double previous = -std::numeric_limits<double>::infinity();
    ASSERT_EQ(histogram.bucket_size(), histogram.bucket_limit_size());
    for (int i = 0; i < histogram.bucket_size(); ++i) {
      double inside = 0;
      for (const double value : values) {
        inside += value > previous && value <= histogram.bucket_limit(i);
      }
      EXPECT_EQ(histogram.bucket(i), inside) << i;
      previous = histogram.bucket_limit(i);
      count += histogram.bucket(i);
    }
    EXPECT_EQ(count, values.size());
    EXPECT_EQ(histogram.num(), values.size());
  }
  EXPECT_EQ(HistogramOf({}).num(), 0);
}

TEST(TensorBoard, ARestartMakesVoidWhatCameAfterItsCheckpoint) {
  EXPECT_TRUE(EventsOf(Attempt(1, 1, 0)).empty());
  const auto events = EventsOf(Attempt(9, 2, 100));
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].session_log().status(), tensorboard::SessionLog::START);
  EXPECT_EQ(events[0].step(), 101);
}

TEST(TensorBoard, GoesOnWithoutRepeating) {
  const std::string folder = Folder("run");
  const v1::Job job = TestJob();
  std::string whole;
  {
    ASSERT_OK_AND_ASSIGN(auto run, TensorBoardRun::Open(folder, job, "job"));
    EXPECT_EQ(run->last_sequence(), 0);
    ASSERT_OK(run->Add(Metrics(1, 10, 4)));
    ASSERT_OK(run->Flush());
    ASSERT_OK(run->Add(Metrics(2, 20, 3)));
    // The object is destroyed without Flush, as if the process had been killed.
  }
  const std::string path =
      absl::StrCat(folder, "/events.out.tfevents.1700000000.comera");
  {
    ASSERT_OK_AND_ASSIGN(auto run, TensorBoardRun::Open(folder, job, "job"));
    EXPECT_EQ(run->last_sequence(), 1);
    ASSERT_OK(run->Add(Metrics(1, 10, 4)));
    ASSERT_OK(run->Add(Metrics(2, 20, 3)));
    v1::Job ended = job;
    ended.set_state(v1::SUCCEEDED);
    ASSERT_OK(run->Finish(ended));
    ASSERT_OK_AND_ASSIGN(whole, ReadFile(path));
    ASSERT_OK(run->Finish(ended));
  }
  ASSERT_OK_AND_ASSIGN(auto run, TensorBoardRun::Open(folder, job, "job"));
  EXPECT_TRUE(run->finished());
  ASSERT_OK_AND_ASSIGN(const std::string again, ReadFile(path));
  EXPECT_EQ(again, whole);

  const std::string once = Folder("once");
  ASSERT_OK_AND_ASSIGN(auto straight, TensorBoardRun::Open(once, job, "job"));
  ASSERT_OK(straight->Add(Metrics(1, 10, 4)));
  ASSERT_OK(straight->Add(Metrics(2, 20, 3)));
  v1::Job ended = job;
  ended.set_state(v1::SUCCEEDED);
  ASSERT_OK(straight->Finish(ended));
  EXPECT_EQ(ReadFile(once + "/events.out.tfevents.1700000000.comera").value(),
            whole);
}

TEST(TensorBoard, RefusesFoldersOfOthers) {
  const std::string folder = Folder("other");
  v1::Job job = TestJob();
  { ASSERT_OK(TensorBoardRun::Open(folder, job, "job").status()); }
  job.set_name("jobs/xyz");
  EXPECT_THAT(TensorBoardRun::Open(folder, job, "job"),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  for (const char* damaged :
       {"{", "[]", "{}", R"({"job": "jobs/abc"})",
        R"({"job":"jobs/abc","file":"../x","bytes":0,"last_sequence":0})",
        R"({"job":"jobs/abc","file":"x","bytes":-1,"last_sequence":0})"}) {
    std::ofstream(folder + "/comera_export.json") << damaged;
    EXPECT_THAT(TensorBoardRun::Open(folder, TestJob(), "job"),
                StatusIs(absl::StatusCode::kDataLoss))
        << damaged;
  }
}

TEST(Mlflow, KeysStayInTheirFolder) {
  EXPECT_EQ(MlflowKey("loss/validation"), "loss/validation");
  EXPECT_EQ(MlflowKey("../../etc"), "etc");
  EXPECT_EQ(MlflowKey("/a//b/./c"), "a/b/c");
  EXPECT_EQ(MlflowKey("a:b=ü"), "a_b___");
  EXPECT_EQ(MlflowKey(".."), "_");
  EXPECT_EQ(MlflowRunId("jobs/abc").size(), 32u);
}

TEST(Mlflow, ALaterAttemptReplacesWhatItRepeats) {
  MlflowRunBuilder builder(TestJob());
  builder.Add(Attempt(1, 1, 0));
  builder.Add(Metrics(2, 10, 4));
  builder.Add(Metrics(3, 20, 3));
  builder.Add(Attempt(4, 2, 10));
  builder.Add(Metrics(5, 20, 2.5));
  const MlflowRun run = builder.RunOf(TestJob());
  const auto& loss = run.metrics.at("loss/training");
  ASSERT_EQ(loss.size(), 2u);
  EXPECT_EQ(loss[0].step, 10);
  EXPECT_EQ(loss[1].step, 20);
  EXPECT_EQ(loss[1].value, 2.5);
  EXPECT_EQ(run.status, MlflowRun::kRunning);
  EXPECT_EQ(run.tags.at("team_a"), "nlp");
}

TEST(Mlflow, ASecondExportReplacesTheFirst) {
  const std::string root = Folder("mlruns");
  MlflowRun run;
  run.id = MlflowRunId("jobs/abc");
  run.name = "it's: a \"run\"";
  run.params = {{"a", "1"}, {"b", "two\nlines"}};
  run.metrics["loss"] = {{1000, 0.5, 1}, {2000, NAN, 2}, {3000, INFINITY, 3}};
  run.tags["ours"] = "before";
  ASSERT_OK(WriteMlflowRun(root, run));
  const std::string folder = absl::StrCat(root, "/0/", run.id);
  // Tags that people add in MLflow stay.
  ASSERT_OK(WriteFileAtomically(folder + "/tags/theirs", "good"));
  run.params.erase("a");
  run.tags["ours"] = "after";
  run.status = MlflowRun::kFinished;
  ASSERT_OK(WriteMlflowRun(root, run));
  EXPECT_EQ(ReadFile(folder + "/tags/theirs").value(), "good");
  EXPECT_EQ(ReadFile(folder + "/tags/ours").value(), "after");
  EXPECT_THAT(ReadFile(folder + "/params/a"),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_EQ(ReadFile(folder + "/params/b").value(), "two\nlines");
  EXPECT_EQ(ReadFile(folder + "/metrics/loss").value(),
            "1000 0.5 1\n2000 nan 2\n3000 inf 3\n");
  ASSERT_OK_AND_ASSIGN(const std::string meta, ReadFile(folder + "/meta.yaml"));
  EXPECT_THAT(meta, HasSubstr("run_name: 'it''s: a \"run\"'"));
  EXPECT_THAT(meta, HasSubstr("status: 3"));
  EXPECT_THAT(ReadFile(root + "/0/meta.yaml").value(),
              HasSubstr("name: Default"));
}

}  // namespace
}  // namespace comera::client
