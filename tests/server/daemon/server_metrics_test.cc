// What a coordinator shows Prometheus, over real gRPC, and what telling it
// costs.
#include <chrono>
#include <iostream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/generic/generic_stub.h"
#include "prometheus/text_serializer.h"
#include "server/metrics/coordinator_metrics.h"
#include "server/metrics/queue_waits.h"
#include "server/metrics/rpc_metrics.h"
#include "tests/server/daemon/server_fixture.h"

namespace comera::server {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class ServerMetricsTest : public ServerFixture {
 protected:
  std::string Text() { return server_->metrics_source()(); }

  Worker w1_{"w1"};
};

TEST_F(ServerMetricsTest, JobsCallsAndWorkersAreCounted) {
  const std::string name = Create(TestSpec(2)).name();
  Create(TestSpec(8));
  clock_.Advance(absl::Seconds(7));
  RunAll(w1_);
  EXPECT_THAT(Text(), HasSubstr("comera_jobs{queue=\"default\","
                                "state=\"RUNNING\"} 1\n"));
  Cancel(name);
  for (v1::MemberStatus& rank : w1_.ranks) {
    rank.set_phase(v1::MemberStatus::EXITED);
  }
  Sync(w1_);
  v1::GetJobRequest none;
  none.set_name("jobs/none");
  v1::Job job;
  training_->GetJob(Context().get(), none, &job);
  grpc::Status status;
  Watch(name, 0, &status);
  server_->host().TickNow();
  const std::string text = Text();
  for (const char* line : {
           "comera_jobs{queue=\"default\",state=\"QUEUED\"} 1\n",
           "comera_jobs{queue=\"default\",state=\"RUNNING\"} 0\n",
           "comera_jobs{queue=\"default\",state=\"CANCELLED\"} 1\n",
           "comera_jobs_accepted_total{queue=\"default\"} 2\n",
           "comera_job_queue_wait_seconds_count{queue=\"default\"} 1\n",
           // In seconds: more than 5, less than 15.
           "comera_job_queue_wait_seconds_bucket{queue=\"default\","
           "le=\"5\"} 0\n",
           "comera_job_queue_wait_seconds_bucket{queue=\"default\","
           "le=\"15\"} 1\n",
           "comera_job_failures_total{class=\"NODE_LOST\"} 0\n",
           "comera_workers{service=\"IN_SERVICE\"} 1\n",
           "comera_workers{service=\"LOST\"} 0\n",
           "comera_slots{device=\"cpu\"} 2\n",
           "comera_leader 1\n",
           "# TYPE comera_schedule_pass_seconds histogram\n",
           "# TYPE comera_store_commit_seconds histogram\n",
           "comera_rate_limit_refusals_total{limit=\"requests\"} 0\n",
           "comera_dropped_samples_total 0\n",
           "# TYPE comera_disk_free_bytes gauge\n",
           "# TYPE process_resident_memory_bytes gauge\n",
       }) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  const auto either = [&text](const std::string& metric,
                              const std::string& method,
                              const std::string& code) {
    // The library writes labels in any order.
    return text.find(absl::StrCat(metric, "{code=\"", code, "\",method=\"",
                                  method, "\"}")) != std::string::npos ||
           text.find(absl::StrCat(metric, "{method=\"", method, "\",code=\"",
                                  code, "\"}")) != std::string::npos;
  };
  EXPECT_TRUE(
      either("comera_rpc_seconds_count", "TrainingService.CreateJob", "OK"));
  EXPECT_TRUE(either("comera_rpc_seconds_count", "TrainingService.GetJob",
                     "NOT_FOUND"));
  EXPECT_TRUE(
      either("comera_rpc_streams_total", "TrainingService.WatchJob", "OK"));
  EXPECT_THAT(text, Not(HasSubstr("jobs/")));
  EXPECT_THAT(text, Not(HasSubstr("comera_rpc_streams_open{method=\"Training"
                                  "Service.GetJob")));
}

TEST_F(ServerMetricsTest, TextOutlivesTheServer) {
  const auto source = server_->metrics_source();
  StopServer();
  EXPECT_THAT(source(), HasSubstr("comera_build_info"));
}

// A coordinator that only shows jobs takes calls of every name.
TEST(RpcMetrics, InventedMethodsAreOneLabel) {
  prometheus::Registry registry;
  grpc::CallbackGenericService service;  // Answers UNIMPLEMENTED.
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                           &port);
  builder.RegisterCallbackGenericService(&service);
  std::vector<
      std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>>
      interceptors;
  interceptors.push_back(MakeRpcMetrics(&registry));
  builder.experimental().SetInterceptorCreators(std::move(interceptors));
  auto server = builder.BuildAndStart();
  ASSERT_NE(server, nullptr);
  grpc::GenericStub stub(grpc::CreateChannel(
      absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials()));
  for (const char* method :
       {"/comera.v1.TrainingService/Invented1", "/comera.v1.Other/Invented2",
        "/comera.v1.Inv\"ented{3}", "/comera.v1.QueueService/GetQueue",
        "/other.Service/Invented4"}) {
    grpc::ClientContext context;
    grpc::CompletionQueue queue;
    auto call =
        stub.PrepareUnaryCall(&context, method, grpc::ByteBuffer(), &queue);
    call->StartCall();
    grpc::ByteBuffer answer;
    grpc::Status status;
    call->Finish(&answer, &status, &queue);
    void* tag = nullptr;
    bool ok = false;
    ASSERT_TRUE(queue.Next(&tag, &ok));
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED) << method;
  }
  server->Shutdown();
  server.reset();
  const std::string text =
      prometheus::TextSerializer().Serialize(registry.Collect());
  EXPECT_THAT(text, Not(HasSubstr("nvented")));
  EXPECT_THAT(text, Not(HasSubstr("ented")));
  EXPECT_THAT(text, HasSubstr("method=\"unknown\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("method=\"QueueService.GetQueue\"} 1\n"));
}

TEST(QueueWaits, KnowsTheOldestOfEachQueue) {
  QueueWaits waits;
  const absl::Time start = absl::FromUnixSeconds(1000);
  waits.Begin("jobs/a", "q", start);
  waits.Begin("jobs/b", "q", start + absl::Seconds(1));
  // Twice told is once waited.
  waits.Begin("jobs/a", "q", start + absl::Seconds(2));
  waits.Begin("jobs/c", "r", start + absl::Seconds(3));
  EXPECT_EQ(waits.Oldest().at("q"), start);
  EXPECT_EQ(waits.End("jobs/a"), start);
  EXPECT_EQ(waits.End("jobs/a"), std::nullopt);
  EXPECT_EQ(waits.Oldest().at("q"), start + absl::Seconds(1));
  waits.End("jobs/b");
  EXPECT_EQ(waits.Oldest().count("q"), 0u);
  EXPECT_EQ(waits.Oldest().at("r"), start + absl::Seconds(3));
  waits.End("jobs/c");
  EXPECT_THAT(waits.Oldest(), IsEmpty());
}

// A submission makes some events and one commit, all on threads that others
// wait for.
TEST(CoordinatorMetrics, TellingCostsLittle) {
  CoordinatorMetrics metrics;
  v1::Job job;
  job.set_name("jobs/abcdefghijkl");
  job.mutable_spec()->set_queue("default");
  v1::JobEvent sample;
  sample.mutable_metrics()->set_step(1);
  v1::JobEvent queued;
  queued.set_sequence(1);
  queued.mutable_state_change()->set_state(v1::QUEUED);
  v1::JobEvent starting;
  starting.mutable_state_change()->set_state(v1::STARTING);
  constexpr int kTimes = 100000;
  const auto nanoseconds = [](const auto& call) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kTimes; ++i) call();
    return std::chrono::duration<double, std::nano>(
               std::chrono::steady_clock::now() - begin)
               .count() /
           kTimes;
  };
  const double of_sample = nanoseconds([&] { metrics.OnEvent(sample, &job); });
  const double of_states = nanoseconds([&] {
    metrics.OnEvent(queued, &job);
    metrics.OnEvent(starting, &job);
  });
  const double of_commit =
      nanoseconds([&] { metrics.OnCommit(absl::Milliseconds(2), 10, true); });
  std::cout << "a sample " << of_sample << " ns, queued and placed "
            << of_states << " ns, a commit " << of_commit << " ns\n";
  // Far above what it is, for slow machines and sanitizers.
  EXPECT_LT(of_sample, 20000);
  EXPECT_LT(of_states, 100000);
  EXPECT_LT(of_commit, 20000);
}

}  // namespace
}  // namespace comera::server
