// The clients' API over real gRPC.

#include <set>
#include <thread>

#include "comera/rpc/error_details.pb.h"
#include "gmock/gmock.h"
#include "grpcpp/generic/generic_stub.h"
#include "tests/server/daemon/server_fixture.h"

namespace comera::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class TrainingServiceTest : public ServerFixture {
 protected:
  static google::rpc::Status Details(const grpc::Status& status) {
    google::rpc::Status details;
    EXPECT_TRUE(details.ParseFromString(status.error_details()));
    EXPECT_EQ(details.code(), status.error_code());
    return details;
  }

  static std::vector<std::string> BadFields(const grpc::Status& status) {
    std::vector<std::string> fields;
    const google::rpc::Status details = Details(status);
    for (const auto& any : details.details()) {
      google::rpc::BadRequest bad;
      if (!any.UnpackTo(&bad)) continue;
      for (const auto& violation : bad.field_violations()) {
        fields.push_back(violation.field());
      }
    }
    return fields;
  }

  template <typename Request, typename Response>
  grpc::Status Call(grpc::Status (v1::TrainingService::Stub::*method)(
                        grpc::ClientContext*, const Request&, Response*),
                    const Request& request) {
    Response response;
    return (training_.get()->*method)(Context().get(), request, &response);
  }

  static std::vector<std::string> Kinds(
      const std::vector<v1::WatchJobResponse>& items) {
    std::vector<std::string> kinds;
    for (const v1::WatchJobResponse& item : items) {
      if (item.has_job()) {
        kinds.push_back("job");
      } else if (item.event().has_state_change()) {
        kinds.push_back(v1::JobState_Name(item.event().state_change().state()));
      } else if (item.event().has_metrics()) {
        kinds.push_back("metrics");
      } else {
        kinds.push_back("other");
      }
    }
    return kinds;
  }

  static v1::ProgressReport Report(const std::string& job, int64_t number) {
    v1::ProgressReport report;
    report.set_job(job);
    report.set_attempt(1);
    report.set_number(number);
    report.mutable_event()->mutable_metrics()->set_step(number * 10);
    report.mutable_event()->mutable_metrics()->set_smoothed_loss(4.5);
    return report;
  }

  // Lets the ranks on `w1` end, rank 0 with a result.
  void End(Worker& worker) {
    for (v1::MemberStatus& rank : worker.ranks) {
      rank.set_phase(v1::MemberStatus::EXITED);
      if (rank.rank() == 0) {
        rank.mutable_result()->set_outcome(v1::COMPLETED);
      }
    }
    Sync(worker);
    worker.ranks.clear();
  }

  Worker w1_{"w1"};
};

TEST_F(TrainingServiceTest, CreatesGetsAndValidates) {
  const v1::Job job = Create(TestSpec(2), "r1");
  EXPECT_THAT(job.name(), ::testing::MatchesRegex("jobs/[a-z2-7]{12}"));
  EXPECT_EQ(job.state(), v1::QUEUED);
  // Defaults are filled when the job is accepted.
  EXPECT_EQ(job.spec().queue(), "default");
  EXPECT_EQ(Get(job.name()).name(), job.name());
  EXPECT_EQ(Create(TestSpec(2), "r1").name(), job.name());
  EXPECT_NE(Create(TestSpec(2), "r2").name(), job.name());

  v1::CreateJobRequest request;
  *request.mutable_spec() = TestSpec(1);
  request.set_request_id("r1");
  grpc::Status status = Call(&v1::TrainingService::Stub::CreateJob, request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("r1"));

  request.clear_request_id();
  request.set_validate_only(true);
  v1::Job dry;
  ASSERT_TRUE(training_->CreateJob(Context().get(), request, &dry).ok());
  EXPECT_EQ(dry.name(), "");
  v1::ListJobsResponse list;
  ASSERT_TRUE(training_->ListJobs(Context().get(), {}, &list).ok());
  EXPECT_THAT(list.jobs(), SizeIs(2));
}

TEST_F(TrainingServiceTest, BadRequestsNameTheField) {
  v1::CreateJobRequest create;
  grpc::Status status = Call(&v1::TrainingService::Stub::CreateJob, create);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(BadFields(status), ElementsAre("spec"));

  *create.mutable_spec() = TestSpec(2);
  create.mutable_spec()->mutable_model()->set_hidden(-1);
  status = Call(&v1::TrainingService::Stub::CreateJob, create);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(BadFields(status), ::testing::Contains("spec.model.hidden"));

  *create.mutable_spec() = TestSpec(2);
  create.set_request_id("with space");
  status = Call(&v1::TrainingService::Stub::CreateJob, create);
  EXPECT_THAT(BadFields(status), ElementsAre("request_id"));
  create.set_request_id(std::string(65, 'x'));
  status = Call(&v1::TrainingService::Stub::CreateJob, create);
  EXPECT_THAT(BadFields(status), ElementsAre("request_id"));

  v1::GetJobRequest get;
  get.set_name("jobs/../../etc");
  status = Call(&v1::TrainingService::Stub::GetJob, get);
  EXPECT_THAT(BadFields(status), ElementsAre("name"));
  get.set_name("jobs/nobody");
  status = Call(&v1::TrainingService::Stub::GetJob, get);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  google::rpc::ErrorInfo info;
  ASSERT_TRUE(Details(status).details(0).UnpackTo(&info));
  EXPECT_EQ(info.domain(), "comera");
  EXPECT_EQ(info.reason(), "NOT_FOUND");

  v1::ListJobsRequest list;
  list.set_page_size(-1);
  EXPECT_THAT(BadFields(Call(&v1::TrainingService::Stub::ListJobs, list)),
              ElementsAre("page_size"));
  list.set_page_size(1001);
  EXPECT_THAT(BadFields(Call(&v1::TrainingService::Stub::ListJobs, list)),
              ElementsAre("page_size"));
  list.set_page_size(0);
  list.set_page_token("MTox");
  EXPECT_THAT(BadFields(Call(&v1::TrainingService::Stub::ListJobs, list)),
              ElementsAre("page_token"));
  v1::CancelJobRequest cancel;
  cancel.set_name("x");
  EXPECT_THAT(BadFields(Call(&v1::TrainingService::Stub::CancelJob, cancel)),
              ElementsAre("name"));
}

TEST_F(TrainingServiceTest, ListsPagesNewestFirst) {
  std::vector<std::string> names;
  for (int i = 0; i < 7; ++i) names.push_back(Create(TestSpec(1)).name());
  Cancel(names[2]);
  Cancel(names[4]);
  std::vector<std::string> listed;
  v1::ListJobsRequest request;
  request.set_page_size(3);
  int pages = 0;
  do {
    v1::ListJobsResponse page;
    ASSERT_TRUE(training_->ListJobs(Context().get(), request, &page).ok());
    for (const v1::Job& job : page.jobs()) listed.push_back(job.name());
    request.set_page_token(page.next_page_token());
    // A job that comes while somebody pages disturbs nobody.
    if (++pages == 1) Create(TestSpec(1));
  } while (!request.page_token().empty());
  EXPECT_EQ(pages, 3);
  EXPECT_EQ(listed, std::vector<std::string>(names.rbegin(), names.rend()));

  v1::ListJobsRequest cancelled;
  cancelled.add_states(v1::CANCELLED);
  cancelled.set_page_size(1);
  v1::ListJobsResponse page;
  ASSERT_TRUE(training_->ListJobs(Context().get(), cancelled, &page).ok());
  ASSERT_THAT(page.jobs(), SizeIs(1));
  EXPECT_EQ(page.jobs(0).name(), names[4]);
  // A token belongs to its filter.
  v1::ListJobsRequest other;
  other.set_page_token(page.next_page_token());
  EXPECT_EQ(Call(&v1::TrainingService::Stub::ListJobs, other).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(TrainingServiceTest, WatchFollowsResumesAndEnds) {
  const std::string name = Create(TestSpec(2)).name();
  std::vector<v1::WatchJobResponse> live;
  grpc::Status live_status;
  std::thread watcher([&] { live = Watch(name, 0, &live_status); });
  RunAll(w1_);
  w1_.reports = {Report(name, 1), Report(name, 2)};
  Sync(w1_);
  w1_.reports.clear();
  End(w1_);
  watcher.join();
  EXPECT_TRUE(live_status.ok()) << live_status.error_message();
  EXPECT_THAT(Kinds(live), ElementsAre("job", "QUEUED", "STARTING", "RUNNING",
                                       "metrics", "metrics", "SUCCEEDED"));
  for (size_t i = 1; i < live.size(); ++i) {
    EXPECT_EQ(live[i].event().sequence(), static_cast<int64_t>(i));
  }
  EXPECT_EQ(Get(name).progress().step(), 20);
  EXPECT_EQ(Get(name).outcome(), v1::COMPLETED);

  grpc::Status status;
  EXPECT_THAT(Kinds(Watch(name, 4, &status)),
              ElementsAre("job", "metrics", "SUCCEEDED"));
  EXPECT_TRUE(status.ok());
  EXPECT_THAT(Kinds(Watch(name, 6, &status)), ElementsAre("job"));
  EXPECT_TRUE(status.ok());
  Watch("jobs/none", 0, &status);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  Watch("nonsense", 0, &status);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(TrainingServiceTest, SeriesAreReadWhereAWatchGoesOn) {
  const std::string name = Create(TestSpec(2)).name();
  RunAll(w1_);
  w1_.reports = {Report(name, 1), Report(name, 2)};
  Sync(w1_);
  w1_.reports.clear();
  v1::ReadSeriesRequest request;
  request.set_name(name);
  request.set_max_points(100);
  request.add_metrics("smoothed_loss");
  v1::JobSeries series;
  ASSERT_TRUE(training_->ReadSeries(Context().get(), request, &series).ok());
  ASSERT_THAT(series.series(), SizeIs(1));
  EXPECT_THAT(series.series(0).steps(), ElementsAre(10, 20));
  EXPECT_THAT(series.series(0).values(), ElementsAre(4.5, 4.5));
  End(w1_);
  // What comes after is the watch's, also of a job that has ended, also after
  // a restart.
  RestartServer();
  grpc::Status status;
  EXPECT_THAT(Kinds(Watch(name, series.last_sequence(), &status)),
              ElementsAre("job", "SUCCEEDED"));
  request.set_after_sequence(series.last_sequence() - 1);
  ASSERT_TRUE(training_->ReadSeries(Context().get(), request, &series).ok());
  EXPECT_THAT(series.series(0).steps(), ElementsAre(20));

  request.set_max_points(0);
  EXPECT_THAT(BadFields(Call(&v1::TrainingService::Stub::ReadSeries, request)),
              ElementsAre("max_points"));
  request.set_max_points(1);
  request.add_metrics("nothing");
  EXPECT_THAT(BadFields(Call(&v1::TrainingService::Stub::ReadSeries, request)),
              ElementsAre("metrics[1]"));
  request.clear_metrics();
  request.set_name("nonsense");
  EXPECT_THAT(BadFields(Call(&v1::TrainingService::Stub::ReadSeries, request)),
              ElementsAre("name"));
  request.set_name("jobs/none");
  EXPECT_EQ(Call(&v1::TrainingService::Stub::ReadSeries, request).error_code(),
            grpc::StatusCode::NOT_FOUND);
}

TEST_F(TrainingServiceTest, WatcherThatHangsUpIsForgotten) {
  const std::string name = Create(TestSpec(2)).name();
  auto context = Context();
  v1::WatchJobRequest request;
  request.set_name(name);
  auto reader = training_->WatchJob(context.get(), request);
  v1::WatchJobResponse item;
  ASSERT_TRUE(reader->Read(&item));
  context->TryCancel();
  while (reader->Read(&item)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(Cancel(name).state(), v1::CANCELLED);
}

TEST_F(TrainingServiceTest, StopEndsStreamsAndHeldCallsInTime) {
  const std::string name = Create(TestSpec(2)).name();
  auto context = Context();
  v1::WatchJobRequest request;
  request.set_name(name);
  auto reader = training_->WatchJob(context.get(), request);
  v1::WatchJobResponse item;
  ASSERT_TRUE(reader->Read(&item));
  server_->Shutdown();
  while (reader->Read(&item)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(TrainingServiceTest, JobAndWatchSurviveARestart) {
  const std::string name = Create(TestSpec(2), "once").name();
  RunAll(w1_);
  w1_.reports = {Report(name, 1)};
  EXPECT_EQ(Sync(w1_).report_acks(0).number(), 1);
  RestartServer();
  EXPECT_EQ(Get(name).state(), v1::RUNNING);
  EXPECT_EQ(Create(TestSpec(2), "once").name(), name);
  // The worker repeats what it has; nothing starts or counts twice.
  clock_.Advance(absl::Seconds(20));
  server_->host().TickNow();
  w1_.reports = {Report(name, 1), Report(name, 2)};
  v1::SynchronizeResponse answer = Sync(w1_);
  EXPECT_EQ(answer.report_acks(0).number(), 2);
  ASSERT_THAT(answer.desired(), SizeIs(2));
  EXPECT_EQ(answer.desired(0).attempt(), 1);
  w1_.reports.clear();
  End(w1_);
  grpc::Status status;
  EXPECT_THAT(Kinds(Watch(name, 3, &status)),
              ElementsAre("job", "metrics", "metrics", "SUCCEEDED"));
}

TEST_F(TrainingServiceTest, WorkersAndVersion) {
  Sync(w1_);
  v1::ListWorkersResponse workers;
  ASSERT_TRUE(training_->ListWorkers(Context().get(), {}, &workers).ok());
  ASSERT_THAT(workers.workers(), SizeIs(1));
  EXPECT_EQ(workers.workers(0).name(), "workers/w1");
  EXPECT_EQ(workers.workers(0).host(), "host-w1");
  EXPECT_EQ(workers.workers(0).slots(), 2);
  EXPECT_TRUE(workers.workers(0).connected());
  clock_.Advance(absl::Seconds(30));
  ASSERT_TRUE(training_->ListWorkers(Context().get(), {}, &workers).ok());
  EXPECT_FALSE(workers.workers(0).connected());
  v1::ServerInfo info;
  ASSERT_TRUE(training_->GetServerInfo(Context().get(), {}, &info).ok());
  EXPECT_NE(info.version(), "");
}

TEST_F(TrainingServiceTest, ManyClientsAtOnce) {
  constexpr int kThreads = 6, kJobs = 20;
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::set<std::string> names;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kJobs; ++i) {
        // Two threads share each request_id.
        const std::string id = std::to_string(t / 2) + "-" + std::to_string(i);
        const std::string name = Create(TestSpec(1), id).name();
        EXPECT_EQ(Get(name).request_id(), id);
        std::lock_guard<std::mutex> lock(mutex);
        names.insert(name);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(names.size(), static_cast<size_t>(kThreads / 2 * kJobs));
}

// One unary call without generated code: health and reflection come without
// headers for their messages.
grpc::Status RawCall(const std::shared_ptr<grpc::Channel>& channel,
                     const std::string& method, const std::string& request,
                     std::string* response) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::seconds(20));
  grpc::CompletionQueue queue;
  grpc::Slice slice(request);
  grpc::ByteBuffer out(&slice, 1), in;
  auto call = stub.PrepareCall(&context, method, &queue);
  grpc::Status status;
  void* tag = nullptr;
  bool ok = false;
  call->StartCall(nullptr);
  queue.Next(&tag, &ok);
  call->Write(out, nullptr);
  queue.Next(&tag, &ok);
  call->WritesDone(nullptr);
  queue.Next(&tag, &ok);
  call->Read(&in, nullptr);
  queue.Next(&tag, &ok);
  const bool got = ok;
  call->Finish(&status, nullptr);
  queue.Next(&tag, &ok);
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) {
  }
  if (got) {
    std::vector<grpc::Slice> slices;
    in.Dump(&slices);
    for (const grpc::Slice& s : slices) {
      response->append(reinterpret_cast<const char*>(s.begin()), s.size());
    }
  }
  return status;
}

TEST_F(TrainingServiceTest, HealthAndReflectionAreOn) {
  std::string response;
  ASSERT_TRUE(
      RawCall(channel_, "/grpc.health.v1.Health/Check", "", &response).ok());
  // HealthCheckResponse{status: SERVING}.
  EXPECT_EQ(response, std::string("\x08\x01"));
  response.clear();
  // ServerReflectionRequest{list_services: "*"}.
  ASSERT_TRUE(
      RawCall(channel_,
              "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
              std::string("\x3a\x01*"), &response)
          .ok());
  EXPECT_THAT(response, HasSubstr("comera.v1.TrainingService"));
  EXPECT_THAT(response, HasSubstr("comera.v1.WorkerService"));
}

TEST_F(TrainingServiceTest, Complaint19_RepeatedSubmissionIsOneJobAlsoLater) {
  const std::string name = Create(TestSpec(), "once").name();
  EXPECT_EQ(Create(TestSpec(), "once").name(), name);
  RestartServer();
  EXPECT_EQ(Create(TestSpec(), "once").name(), name);
  Cancel(name);
  EXPECT_EQ(Create(TestSpec(), "once").name(), name);
  v1::ListJobsResponse list;
  ASSERT_TRUE(training_->ListJobs(Context().get(), {}, &list).ok());
  EXPECT_EQ(list.jobs_size(), 1);
}

}  // namespace
}  // namespace comera::server
