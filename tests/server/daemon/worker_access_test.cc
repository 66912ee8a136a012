// What the token of a worker opens, and what it does not, over real gRPC.

#include <string>

#include "comera/v1/access_service.grpc.pb.h"
#include "common/call_metadata.h"
#include "gmock/gmock.h"
#include "tests/server/daemon/security_fixture.h"

namespace comera::server {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

TEST_F(SecurityTest, WorkersAndUsersAreApart) {
  const std::string root = Token("", "root", v1::ROLE_ADMIN);
  const std::string worker =
      Token(root, "w1", v1::ROLE_UNSPECIFIED, {}, /*worker=*/true);
  EXPECT_EQ(CreateAs(worker, "default"), Code::PERMISSION_DENIED);
  v1::ListWorkersResponse workers;
  EXPECT_EQ(training_->ListWorkers(As(worker).get(), {}, &workers).error_code(),
            Code::PERMISSION_DENIED);
  EXPECT_EQ(CountAs(worker), 0u);
  v1::SynchronizeRequest request;
  request.set_worker("w1");
  request.set_incarnation("i");
  v1::SynchronizeResponse response;
  EXPECT_EQ(worker_stub_->Synchronize(As(worker).get(), request, &response)
                .error_code(),
            Code::OK);
  for (const std::string& secret : {root, std::string()}) {
    EXPECT_NE(worker_stub_->Synchronize(As(secret).get(), request, &response)
                  .error_code(),
              Code::OK);
  }
  // The attack: the same token, to pass for another worker, in the report or in
  // the call.
  request.set_worker("w2");
  EXPECT_EQ(worker_stub_->Synchronize(As(worker).get(), request, &response)
                .error_code(),
            Code::PERMISSION_DENIED);
  request.set_worker("w1");
  auto named = As(worker);
  named->AddMetadata(kWorkerMetadata, "w2");
  EXPECT_EQ(
      worker_stub_->Synchronize(named.get(), request, &response).error_code(),
      Code::PERMISSION_DENIED);
  v1::ArtifactFile file = Describe("model.safetensors", "x");
  EXPECT_EQ(Upload("jobs/a/models/m", 1, file, "x").error_code(),
            Code::UNAUTHENTICATED);
}

// The attack: a worker of one job replaces another's model, and reads what its
// own jobs do not need.
TEST_F(SecurityTest, AWorkerTouchesItsOwnJobsOnly) {
  const std::string root = Token("", "root", v1::ROLE_ADMIN);
  const auto as_worker = [&](const std::string& name) {
    return Token(root, name, v1::ROLE_UNSPECIFIED, {}, /*worker=*/true);
  };
  const std::string w1 = as_worker("w1"), w2 = as_worker("w2");
  std::string job;
  ASSERT_EQ(CreateAs(root, "default", &job), Code::OK);
  v1::SynchronizeRequest report;
  report.set_worker("w1");
  report.set_incarnation("i1");
  report.add_slots()->set_device(v1::ResourceSpec::CPU);
  v1::SynchronizeResponse answer;
  do {
    ASSERT_TRUE(worker_stub_->Synchronize(As(w1).get(), report, &answer).ok());
    clock_.Advance(absl::Milliseconds(100));
  } while (answer.desired_size() == 0);

  EXPECT_EQ(UploadAs(w2, job), Code::PERMISSION_DENIED);
  EXPECT_EQ(UploadAs(w1, job), Code::OK);
  EXPECT_EQ(UploadAs(w1, job), Code::OK);
  EXPECT_EQ(FetchAs(w2, std::string(64, 'a')), Code::PERMISSION_DENIED);

  // And writes into the other's log, also after its job has ended.
  const auto add_line = [&](const std::string& secret,
                            const std::string& worker, int64_t offset) {
    v1::SynchronizeRequest request = report;
    request.set_worker(worker);
    request.clear_logs();
    v1::LogChunk& chunk = *request.add_logs();
    chunk.set_job(job);
    chunk.set_attempt(1);
    chunk.set_offset(offset);
    chunk.set_data(worker + " was here\n");
    ASSERT_TRUE(
        worker_stub_->Synchronize(As(secret).get(), request, &answer).ok());
  };
  const auto log = [&] {
    v1::ReadLogRequest request;
    request.set_name(job);
    const auto context = As(root);
    const auto reader = training_->ReadLog(context.get(), request);
    std::string text;
    v1::ReadLogResponse part;
    while (reader->Read(&part)) text += part.data();
    return text;
  };
  add_line(w2, "w2", 0);
  EXPECT_EQ(log(), "");
  add_line(w1, "w1", 0);
  EXPECT_EQ(log(), "w1 was here\n");
  ASSERT_EQ(CancelAs(root, job), Code::OK);
  v1::MemberStatus& member = *report.add_members();
  member.set_job(job);
  member.set_attempt(1);
  member.set_phase(v1::MemberStatus::EXITED);
  add_line(w1, "w1", 0);
  report.clear_members();
  add_line(w2, "w2", 12);
  EXPECT_EQ(log(), "w1 was here\n");
  add_line(w1, "w1", 12);
  EXPECT_EQ(log(), "w1 was here\nw1 was here\n");
  clock_.Advance(absl::Minutes(11));
  add_line(w1, "w1", 24);
  EXPECT_EQ(log(), "w1 was here\nw1 was here\n");
}

// The attack: a token of an earlier version, which names no worker, passes for
// any, and a call that leaves its worker's name out is asked for nothing.
TEST_F(SecurityTest, ATokenThatNamesNoWorkerStandsForNone) {
  const std::string root = Token("", "root", v1::ROLE_ADMIN);
  const std::string unbound =
      Token(root, "w1", v1::ROLE_UNSPECIFIED, {}, /*worker=*/true);
  std::string job;
  ASSERT_EQ(CreateAs(root, "default", &job), Code::OK);
  Unbind(unbound);
  std::string message;
  for (const char* caller : {"w1", "w2", ""}) {
    EXPECT_EQ(SyncAs(unbound, caller, "w1", &message), Code::PERMISSION_DENIED);
    EXPECT_THAT(message, HasSubstr("comera token create --worker --name"));
  }
  EXPECT_EQ(UploadAs(unbound, job), Code::PERMISSION_DENIED);
  EXPECT_EQ(FetchAs(unbound, std::string(64, 'a')), Code::PERMISSION_DENIED);
  // An upgrade may need it for some time.
  options_.security.allow_unbound_worker_tokens = true;
  Restart();
  EXPECT_EQ(SyncAs(unbound, "w1", "w1"), Code::OK);
  EXPECT_EQ(FetchAs(unbound, std::string(64, 'a')), Code::NOT_FOUND);
}

// The attack: one who may see no job of a queue learns their names from the
// workers.
TEST_F(SecurityTest, WorkersNameOnlyJobsThatTheCallerMaySee) {
  const std::string root = Token("", "root", v1::ROLE_ADMIN);
  const std::string eve =
      Token(root, "eve", v1::ROLE_UNSPECIFIED, {{"fast", v1::ROLE_VIEWER}});
  const std::string worker =
      Token(root, "w1", v1::ROLE_UNSPECIFIED, {}, /*worker=*/true);
  std::string job;
  ASSERT_EQ(CreateAs(root, "default", &job), Code::OK);
  v1::SynchronizeRequest report;
  report.set_worker("w1");
  report.set_incarnation("i1");
  report.add_slots()->set_device(v1::ResourceSpec::CPU);
  v1::SynchronizeResponse answer;
  do {
    ASSERT_TRUE(
        worker_stub_->Synchronize(As(worker).get(), report, &answer).ok());
    clock_.Advance(absl::Milliseconds(100));
  } while (answer.desired_size() == 0);
  v1::GetWorkerRequest request;
  request.set_name("workers/w1");
  for (const std::string& secret : {root, eve}) {
    v1::ListWorkersResponse workers;
    v1::WorkerSummary one;
    ASSERT_TRUE(training_->ListWorkers(As(secret).get(), {}, &workers).ok());
    ASSERT_TRUE(training_->GetWorker(As(secret).get(), request, &one).ok());
    ASSERT_THAT(workers.workers(), SizeIs(1));
    for (const v1::WorkerSummary& shown : {workers.workers(0), one}) {
      EXPECT_EQ(shown.jobs_size(), secret == root ? 1 : 0);
      EXPECT_EQ(shown.other_jobs(), secret == root ? 0 : 1);
    }
  }
}

}  // namespace
}  // namespace comera::server
