// Tests reading of series from the cache and the store.
#include "server/view/series_reader.h"

#include <future>
#include <memory>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace comera::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Counts what is read of it.
class CountingStore : public JobStore {
 public:
  absl::StatusOr<std::vector<JobRecord>> LoadJobs() override {
    return std::vector<JobRecord>();
  }
  absl::StatusOr<std::vector<v1::JobEvent>> ReadEvents(const std::string& job,
                                                       int64_t after,
                                                       int64_t last,
                                                       int limit) override {
    if (!failure.ok()) return failure;
    std::vector<v1::JobEvent> events;
    for (int64_t i = after + 1;
         i <= last && static_cast<int>(events.size()) < limit; ++i) {
      events.emplace_back();
      events.back().set_job(job);
      events.back().set_sequence(i);
      events.back().mutable_metrics()->set_step(i);
      events.back().mutable_metrics()->set_loss(static_cast<double>(i));
    }
    read += static_cast<int>(events.size());
    return events;
  }
  absl::StatusOr<std::vector<Document>> LoadDocuments(
      const std::string&) override {
    return std::vector<Document>();
  }
  absl::StatusOr<std::vector<AuditRow>> ReadAudit(int64_t, int) override {
    return std::vector<AuditRow>();
  }
  absl::Status Commit(const StoreBatch&) override { return absl::OkStatus(); }
  absl::Status Backup(const std::string&) override { return absl::OkStatus(); }

  absl::Status failure;
  int read = 0;
};

class SeriesReaderTest : public ::testing::Test {
 protected:
  SeriesReaderTest() { Start({}); }

  void Start(const SeriesReader::Options& options) {
    reader_ = std::make_unique<SeriesReader>(
        options,
        [this](const std::function<void(JobStore*)>& read) { read(&store_); });
  }

  std::future<absl::StatusOr<v1::JobSeries>> Ask(const std::string& job,
                                                 int64_t last,
                                                 int64_t after = 0) {
    v1::ReadSeriesRequest request;
    request.set_name(job);
    request.set_max_points(10000);
    request.set_after_sequence(after);
    auto answer =
        std::make_shared<std::promise<absl::StatusOr<v1::JobSeries>>>();
    reader_->Read(request, last,
                  [answer](absl::StatusOr<v1::JobSeries> series) {
                    answer->set_value(std::move(series));
                  });
    return answer->get_future();
  }

  CountingStore store_;
  std::unique_ptr<SeriesReader> reader_;
};

TEST_F(SeriesReaderTest, ReadsEveryEventOnce) {
  auto series = Ask("jobs/a", 1234).get();
  ASSERT_OK(series);
  EXPECT_EQ(series->last_sequence(), 1234);
  EXPECT_THAT(series->series(0).steps(), SizeIs(1234));
  EXPECT_EQ(store_.read, 1234);
  ASSERT_OK(Ask("jobs/a", 1234).get());
  EXPECT_EQ(store_.read, 1234);
  series = Ask("jobs/a", 1236, 1233).get();
  EXPECT_THAT(series->series(0).steps(), ElementsAre(1234, 1235, 1236));
  EXPECT_EQ(store_.read, 1236);
  // Another asker saw the job a moment before.
  EXPECT_EQ(Ask("jobs/a", 1200).get()->last_sequence(), 1236);
  EXPECT_THAT(Ask("jobs/empty", 0).get()->series(), IsEmpty());
}

TEST_F(SeriesReaderTest, ManyAskersAreOneRead) {
  SeriesReader::Options options;
  options.page = 100;
  Start(options);
  std::vector<std::future<absl::StatusOr<v1::JobSeries>>> answers;
  for (int i = 0; i < 50; ++i) answers.push_back(Ask("jobs/a", 1000 + i));
  for (int i = 0; i < 50; ++i) {
    const auto series = answers[i].get();
    ASSERT_OK(series);
    EXPECT_GE(series->last_sequence(), 1000 + i);
  }
  EXPECT_EQ(store_.read, 1049);
}

TEST_F(SeriesReaderTest, ForgetsJobsOfWhichNobodyAsks) {
  SeriesReader::Options options;
  options.max_bytes = 1 << 20;
  Start(options);
  for (const char* job : {"jobs/a", "jobs/b", "jobs/c"}) {
    ASSERT_OK(Ask(job, 3000).get());
  }
  // The last one stays.
  store_.read = 0;
  ASSERT_OK(Ask("jobs/c", 3000).get());
  EXPECT_EQ(store_.read, 0);
  ASSERT_OK(Ask("jobs/a", 3000).get());
  EXPECT_EQ(store_.read, 3000);
}

TEST_F(SeriesReaderTest, WhatGrewLongIsReadAnew) {
  SeriesReader::Options options;
  options.max_rows = 1000;
  Start(options);
  ASSERT_OK(Ask("jobs/a", 1001).get());
  ASSERT_OK(Ask("jobs/a", 1002).get());
  EXPECT_EQ(store_.read, 1001 + 1002);
}

TEST_F(SeriesReaderTest, ErrorsOfTheStoreAreToldAndNotKept) {
  store_.failure = absl::UnavailableError("the disk is away");
  EXPECT_THAT(Ask("jobs/a", 5).get(), StatusIs(absl::StatusCode::kUnavailable));
  store_.failure = absl::OkStatus();
  EXPECT_EQ(Ask("jobs/a", 5).get()->last_sequence(), 5);
}

}  // namespace
}  // namespace comera::server
