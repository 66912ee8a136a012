// Starts a whole server in the process for tests.
#include "tests/server/daemon/server_fixture.h"

#include <algorithm>

#include "absl/time/clock.h"
#include "common/files.h"
#include "common/status_matchers.h"
#include "server/rpc/proto_time.h"

namespace comera::server {

ServerFixture::ServerFixture() {
  options_.data_dir = folder_.path() + "/data";
  options_.host.tick_interval = absl::InfiniteDuration();
  options_.shutdown_grace = absl::Seconds(2);
  // Tests do not depend on the room on this machine's disk.
  options_.disk = {0, 0, 0};
  StartServer();
}

ServerFixture::~ServerFixture() { StopServer(); }

void ServerFixture::StartServer() {
  auto server = ComeraServer::Start(
      options_, &clock_, &ids_, [](const absl::Status& status) {
        ADD_FAILURE() << "store failed: " << status;
      });
  ASSERT_OK(server);
  server_ = *std::move(server);
  channel_ = grpc::CreateChannel(server_->address(),
                                 grpc::InsecureChannelCredentials());
  training_ = v1::TrainingService::NewStub(channel_);
  worker_stub_ = v1::WorkerService::NewStub(channel_);
}

void ServerFixture::StopServer() {
  training_.reset();
  worker_stub_.reset();
  channel_.reset();
  server_.reset();
}

std::unique_ptr<grpc::ClientContext> ServerFixture::Context() {
  auto context = std::make_unique<grpc::ClientContext>();
  context->set_deadline(std::chrono::system_clock::now() +
                        std::chrono::seconds(20));
  return context;
}

std::unique_ptr<grpc::ClientContext> ServerFixture::As(
    const std::string& secret) {
  auto context = Context();
  if (!secret.empty()) {
    context->AddMetadata("authorization", "Bearer " + secret);
  }
  return context;
}

v1::Job ServerFixture::Create(const v1::JobSpec& spec,
                              const std::string& request_id) {
  v1::CreateJobRequest request;
  *request.mutable_spec() = spec;
  request.set_request_id(request_id);
  v1::Job job;
  const grpc::Status status =
      training_->CreateJob(Context().get(), request, &job);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return job;
}

v1::Job ServerFixture::Get(const std::string& name) {
  v1::GetJobRequest request;
  request.set_name(name);
  v1::Job job;
  const grpc::Status status = training_->GetJob(Context().get(), request, &job);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return job;
}

v1::Job ServerFixture::Cancel(const std::string& name) {
  v1::CancelJobRequest request;
  request.set_name(name);
  v1::Job job;
  const grpc::Status status =
      training_->CancelJob(Context().get(), request, &job);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return job;
}

grpc::Status ServerFixture::Sync(Worker& worker,
                                 v1::SynchronizeResponse* response) {
  v1::SynchronizeRequest request;
  request.set_worker(worker.id);
  request.set_incarnation(worker.incarnation);
  request.set_host(worker.host.empty() ? "host-" + worker.id : worker.host);
  request.set_peer_address(worker.address);
  for (int i = 0; i < worker.slots; ++i) {
    v1::Slot* slot = request.add_slots();
    slot->set_index(i);
    slot->set_device(v1::ResourceSpec::CPU);
  }
  for (const auto& rank : worker.ranks) *request.add_members() = rank;
  for (const auto& report : worker.reports) *request.add_reports() = report;
  for (const auto& log : worker.logs) *request.add_logs() = log;
  request.set_seen_version(worker.seen_version);
  *request.mutable_hold() = ToProtoDuration(worker.hold);
  grpc::Status status =
      worker_stub_->Synchronize(Context().get(), request, response);
  if (status.ok()) worker.seen_version = response->desired_version();
  return status;
}

v1::SynchronizeResponse ServerFixture::Sync(Worker& worker) {
  v1::SynchronizeResponse response;
  const grpc::Status status = Sync(worker, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response;
}

void ServerFixture::RunAll(Worker& worker) {
  v1::SynchronizeResponse response;
  // The scheduler runs after the call that brought the slots, and pauses for up
  // to a second of real time after a pass that the machine held up.
  const absl::Time end = absl::Now() + absl::Seconds(30);
  while (response.desired_size() == 0) {
    ASSERT_LT(absl::Now(), end) << "nothing is placed on " << worker.id;
    response = Sync(worker);
  }
  worker.ranks.clear();
  for (const v1::MemberAssignment& rank : response.desired()) {
    v1::MemberStatus& status = worker.ranks.emplace_back();
    status.set_job(rank.job());
    status.set_attempt(rank.attempt());
    status.set_rank(rank.rank());
    status.set_slot(rank.slot());
    status.set_phase(v1::MemberStatus::RUNNING);
  }
  Sync(worker);
}

grpc::Status ServerFixture::Upload(const std::string& artifact, int64_t attempt,
                                   const v1::ArtifactFile& file,
                                   const std::string& data) {
  auto context = Context();
  v1::UploadArtifactResponse response;
  auto writer = worker_stub_->UploadArtifact(context.get(), &response);
  v1::UploadArtifactRequest request;
  request.mutable_header()->set_artifact(artifact);
  request.mutable_header()->set_attempt(attempt);
  *request.mutable_header()->mutable_file() = file;
  writer->Write(request);
  for (size_t offset = 0; offset < data.size(); offset += 100000) {
    request.set_data(data.substr(offset, 100000));
    if (!writer->Write(request)) break;
  }
  writer->WritesDone();
  return writer->Finish();
}

std::vector<v1::WatchJobResponse> ServerFixture::Watch(const std::string& name,
                                                       int64_t after,
                                                       grpc::Status* status) {
  auto context = Context();
  v1::WatchJobRequest request;
  request.set_name(name);
  request.set_after_sequence(after);
  auto reader = training_->WatchJob(context.get(), request);
  std::vector<v1::WatchJobResponse> items;
  v1::WatchJobResponse item;
  while (reader->Read(&item)) {
    if (item.has_event() || items.empty()) items.push_back(item);
  }
  *status = reader->Finish();
  return items;
}

grpc::Status ServerFixture::ReadLog(const v1::ReadLogRequest& request,
                                    std::string* data) {
  auto context = Context();
  auto reader = training_->ReadLog(context.get(), request);
  v1::ReadLogResponse part;
  while (reader->Read(&part)) {
    EXPECT_EQ(part.offset(),
              request.offset() + static_cast<int64_t>(data->size()));
    EXPECT_EQ(part.attempt(), std::max<int64_t>(request.attempt(), 1));
    data->append(part.data());
  }
  return reader->Finish();
}

grpc::Status ServerFixture::Download(const std::string& name,
                                     const std::string& path, int64_t offset,
                                     std::string* data) {
  auto context = Context();
  v1::DownloadArtifactRequest request;
  request.set_name(name);
  request.set_path(path);
  request.set_offset(offset);
  auto reader = training_->DownloadArtifact(context.get(), request);
  v1::DownloadArtifactResponse part;
  while (reader->Read(&part)) {
    EXPECT_EQ(part.offset(), offset + static_cast<int64_t>(data->size()));
    data->append(part.data());
  }
  return reader->Finish();
}

v1::ArtifactFile Describe(const std::string& path, const std::string& data) {
  v1::ArtifactFile file;
  file.set_path(path);
  file.set_size_bytes(static_cast<int64_t>(data.size()));
  file.set_sha256(Sha256Hex(data));
  return file;
}

}  // namespace comera::server
