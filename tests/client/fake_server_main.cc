// Stands in for comera-server: serves on --listen, writes its address to
// --port_file and a token to --init_admin_token_file, and makes one for a
// worker. It has one unfinished job until that is cancelled, jobs/done,
// which succeeded in its second attempt, and jobs/stopping, which is being
// cancelled until it was looked at three times, and succeeds once resumed.
#include <pthread.h>
#include <signal.h>

#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "comera/v1/access_service.grpc.pb.h"
#include "common/files.h"
#include "tests/client/fake_training_service.h"

namespace {

using comera::client::FakeTrainingService;
namespace v1 = comera::v1;

constexpr char kWeights[] = "weights";
constexpr int64_t kStart = 1700000000;

void FillDone(v1::Job* job) {
  job->set_name("jobs/done");
  job->set_state(v1::SUCCEEDED);
  job->set_outcome(v1::TARGET_MET);
  job->set_user("alice");
  job->mutable_create_time()->set_seconds(kStart);
  job->mutable_start_time()->set_seconds(kStart + 1);
  job->mutable_end_time()->set_seconds(kStart + 100);
  job->mutable_spec()->set_display_name("night \"run\"");
  job->mutable_spec()->mutable_model()->set_layers(2);
  (*job->mutable_spec()->mutable_labels())["team"] = "nlp";
  v1::Artifact* model = job->add_models();
  model->set_name("jobs/done/models/final");
  v1::ArtifactFile* file = model->add_files();
  file->set_path("model.safetensors");
  file->set_size_bytes(sizeof(kWeights) - 1);
  file->set_sha256(comera::Sha256Hex(kWeights));
}

// Steps 10 to 50; a second attempt repeats from 30 on, a little better.
std::vector<v1::JobEvent> DoneEvents() {
  std::vector<v1::JobEvent> events;
  const auto add = [&](int64_t attempt) -> v1::JobEvent& {
    events.emplace_back();
    v1::JobEvent& event = events.back();
    event.set_job("jobs/done");
    event.set_sequence(static_cast<int64_t>(events.size()));
    event.set_attempt(attempt);
    event.mutable_time()->set_seconds(kStart +
                                      static_cast<int64_t>(events.size()));
    return event;
  };
  for (int64_t attempt = 1; attempt <= 2; ++attempt) {
    const int64_t resumed = attempt == 1 ? 0 : 30;
    add(attempt).mutable_run_info()->set_resumed_from_step(resumed);
    for (int64_t step = resumed + 10; step <= 50; step += 10) {
      v1::StepMetrics* metrics = add(attempt).mutable_metrics();
      metrics->set_step(step);
      metrics->set_total_steps(50);
      metrics->set_loss(6.0 - 0.02 * static_cast<double>(step) -
                        0.25 * static_cast<double>(attempt - 1));
      metrics->set_size_parameters(1000 - 10 * step);
      if (step % 20 == 0) metrics->set_validation_loss(metrics->loss() + 0.5);
      v1::LayerRanks* layer =
          add(attempt).mutable_rank_snapshot()->add_layers();
      events.back().mutable_rank_snapshot()->set_step(step);
      layer->set_layer("encoder.0.query");
      layer->set_layer_class("attention");
      for (int32_t rank : {8, 6, static_cast<int32_t>(10 - step / 10)}) {
        layer->add_initial(10);
        layer->add_current(rank);
      }
    }
    if (attempt == 1) {
      v1::Failure* failure = add(attempt).mutable_incident();
      failure->set_failure_class(v1::NODE_LOST);
      failure->set_message("node-1 is gone");
    }
  }
  v1::StateChange* change = add(2).mutable_state_change();
  change->set_state(v1::SUCCEEDED);
  change->set_outcome(v1::TARGET_MET);
  return events;
}

grpc::Status NoSuchJob() {
  return grpc::Status(grpc::StatusCode::NOT_FOUND, "no such job");
}

// The number of events of jobs/done that have happened: the number in a file,
// else all.
int64_t EventsRecorded(const std::string& folder) {
  const auto text = comera::ReadFile(folder + "/told");
  return text.ok() ? std::stoll(*text)
                   : static_cast<int64_t>(DoneEvents().size());
}

void ServeDone(const std::string& folder, FakeTrainingService* service) {
  service->get_job = [=](const v1::GetJobRequest& request, v1::Job* job) {
    if (request.name() != "jobs/done") return NoSuchJob();
    FillDone(job);
    if (EventsRecorded(folder) < static_cast<int64_t>(DoneEvents().size())) {
      job->set_state(v1::RUNNING);
      job->set_outcome(v1::OUTCOME_UNSPECIFIED);
      job->clear_end_time();
      job->clear_models();
    }
    return grpc::Status::OK;
  };
  service->read_series = [=](const v1::ReadSeriesRequest&,
                             v1::JobSeries* series) {
    series->set_last_sequence(EventsRecorded(folder));
    return grpc::Status::OK;
  };
  service->watch_job = [=](const v1::WatchJobRequest& request,
                           grpc::ServerContext*, auto* writer) {
    v1::WatchJobResponse response;
    FillDone(response.mutable_job());
    response.mutable_job()->set_state(v1::RUNNING);
    writer->Write(response);
    for (const v1::JobEvent& event : DoneEvents()) {
      if (event.sequence() <= request.after_sequence()) continue;
      if (event.sequence() > EventsRecorded(folder)) break;
      *response.mutable_event() = event;
      writer->Write(response);
    }
    return grpc::Status::OK;
  };
  service->download = [](const v1::DownloadArtifactRequest&,
                         grpc::ServerContext*, auto* writer) {
    v1::DownloadArtifactResponse response;
    response.set_data(kWeights);
    writer->Write(response);
    return grpc::Status::OK;
  };
}

// Comes after ServeDone().
void ServeStopping(FakeTrainingService* service) {
  struct Stopping {
    int looks = 0;
    bool resumed = false;
  };
  const auto stopping = std::make_shared<Stopping>();
  const auto fill = [=](v1::Job* job) {
    job->set_name("jobs/stopping");
    job->set_state(stopping->resumed     ? v1::SUCCEEDED
                   : stopping->looks < 3 ? v1::CANCELLING
                                         : v1::CANCELLED);
    if (stopping->resumed) job->set_outcome(v1::COMPLETED);
  };
  service->get_job = [=, others = service->get_job](
                         const v1::GetJobRequest& request, v1::Job* job) {
    if (request.name() != "jobs/stopping") return others(request, job);
    ++stopping->looks;
    fill(job);
    return grpc::Status::OK;
  };
  service->resume_job = [=](const v1::ResumeJobRequest& request, v1::Job* job) {
    if (request.name() != "jobs/stopping") return NoSuchJob();
    if (stopping->looks < 3) {
      return grpc::Status(grpc::StatusCode::FAILED_PRECONDITION,
                          "jobs/stopping is CANCELLING");
    }
    stopping->resumed = true;
    fill(job);
    return grpc::Status::OK;
  };
  service->watch_job = [=, others = service->watch_job](
                           const v1::WatchJobRequest& request,
                           grpc::ServerContext* context, auto* writer) {
    if (request.name() != "jobs/stopping") {
      return others(request, context, writer);
    }
    v1::WatchJobResponse response;
    fill(response.mutable_job());
    writer->Write(response);
    v1::JobEvent* event = response.mutable_event();
    event->set_job(request.name());
    event->set_sequence(1);
    event->mutable_state_change()->set_state(v1::SUCCEEDED);
    event->mutable_state_change()->set_outcome(v1::COMPLETED);
    writer->Write(response);
    return grpc::Status::OK;
  };
}

// Makes the same token for whoever asks, and knows it; what it was asked for is
// in a file.
class FakeAccessService : public v1::AccessService::Service {
 public:
  explicit FakeAccessService(const std::string& folder) : folder_(folder) {}

  grpc::Status CreateToken(grpc::ServerContext*,
                           const v1::CreateTokenRequest* request,
                           v1::CreateTokenResponse* response) override {
    response->set_secret(kWorkerToken);
    const auto before = comera::ReadFile(folder_ + "/tokens");
    const absl::Status written = comera::WriteFileAtomically(
        folder_ + "/tokens", before.value_or("") + request->user() + "\n");
    return written.ok() ? grpc::Status::OK
                        : grpc::Status(grpc::StatusCode::INTERNAL, "disk");
  }
  grpc::Status WhoAmI(grpc::ServerContext* context, const v1::WhoAmIRequest*,
                      v1::WhoAmIResponse* response) override {
    const auto& metadata = context->client_metadata();
    const auto found = metadata.find("authorization");
    if (found == metadata.end() ||
        found->second != std::string("Bearer ") + kWorkerToken) {
      return grpc::Status(grpc::StatusCode::UNAUTHENTICATED, "who?");
    }
    response->mutable_token()->set_worker(true);
    return grpc::Status::OK;
  }

 private:
  static constexpr char kWorkerToken[] = "fake-worker-token";
  const std::string folder_;
};

std::string Flag(int argc, char** argv, const std::string& name) {
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.rfind(name + "=", 0) == 0) {
      return argument.substr(name.size() + 1);
    }
  }
  return "";
}

}  // namespace

int main(int argc, char** argv) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  const std::string folder = Flag(argc, argv, "--data_dir");
  const std::string cancelled = folder + "/cancelled";
  FakeTrainingService service;
  ServeDone(folder, &service);
  ServeStopping(&service);
  service.list_jobs = [&](const comera::v1::ListJobsRequest&,
                          comera::v1::ListJobsResponse* response) {
    if (!comera::ReadFile(cancelled).ok()) {
      v1::Job* job = response->add_jobs();
      job->set_name("jobs/left");
      job->set_state(v1::QUEUED);
    }
    return grpc::Status::OK;
  };
  service.cancel_job = [&](const comera::v1::CancelJobRequest& request,
                           comera::v1::Job*) {
    if (!comera::WriteFileAtomically(cancelled, request.name()).ok()) {
      return grpc::Status(grpc::StatusCode::INTERNAL, "disk");
    }
    return grpc::Status::OK;
  };
  service.list_workers = [](const v1::ListWorkersRequest&,
                            v1::ListWorkersResponse* response) {
    v1::WorkerSummary* worker = response->add_workers();
    worker->set_name("workers/node-1");
    worker->set_slots(2);
    worker->set_busy_slots(1);
    worker->set_connected(true);
    return grpc::Status::OK;
  };
  FakeAccessService access(folder);
  service.others.push_back(&access);
  const std::string token = Flag(argc, argv, "--init_admin_token_file");
  if (!token.empty() && !comera::ReadFile(token).ok() &&
      !comera::WriteFileAtomically(token, "fake-admin-token\n", 0600).ok()) {
    return 1;
  }
  const std::string address = service.Start(Flag(argc, argv, "--listen"));
  std::cerr << "serving " << address << std::endl;
  if (!comera::WriteFileAtomically(Flag(argc, argv, "--port_file"), address)
           .ok()) {
    return 1;
  }
  int number = 0;
  sigwait(&signals, &number);
  return 0;
}
