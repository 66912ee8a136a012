// Submits jobs from many concurrent clients through asynchronous stubs.

#include "tests/bench/service/submission_load.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "comera/v1/training_service.grpc.pb.h"
#include "common/grpc_status.h"

namespace comera::bench {
namespace {

// The state of all clients, whose calls complete on gRPC's threads.
class Submitters {
 public:
  Submitters(const v1::JobSpec& spec, int count, SubmissionFigures* figures)
      : count_(count),
        figures_(figures),
        begin_(absl::ToUnixMicros(absl::Now())) {
    *request_.mutable_spec() = spec;
  }

  absl::Status Run(const Channels& channels, int clients) {
    const absl::Time begin = absl::Now();
    left_ = clients;
    for (int i = 0; i < clients; ++i) {
      clients_.push_back(std::make_unique<Client>());
      clients_.back()->stub =
          v1::TrainingService::NewStub(channels[i % channels.size()]);
    }
    for (auto& client : clients_) Next(client.get());
    std::unique_lock<std::mutex> lock(mutex_);
    done_.wait(lock, [this] { return left_ == 0; });
    figures_->elapsed = absl::Now() - begin;
    return status_;
  }

 private:
  struct Client {
    std::unique_ptr<v1::TrainingService::Stub> stub;
    std::unique_ptr<grpc::ClientContext> context;
    v1::CreateJobRequest request;
    v1::Job job;
    absl::Time sent;
  };

  void Next(Client* client) {
    const int number = next_.fetch_add(1);
    if (number >= count_) return Leave(absl::OkStatus());
    client->context = std::make_unique<grpc::ClientContext>();
    client->request = request_;
    // A request id as real clients send it, so that a lost reply does not
    // create a second job. The time distinguishes runs.
    client->request.set_request_id(absl::StrCat("load-", begin_, "-", number));
    client->job.Clear();
    client->sent = absl::Now();
    client->stub->async()->CreateJob(
        client->context.get(), &client->request, &client->job,
        [this, client](const grpc::Status& status) {
          if (!status.ok()) {
            next_ = count_;
            return Leave(FromGrpcStatus(status));
          }
          figures_->latencies.Add(absl::Now() - client->sent);
          {
            std::lock_guard<std::mutex> lock(mutex_);
            figures_->jobs.push_back(client->job.name());
          }
          Next(client);
        });
  }

  void Leave(const absl::Status& status) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (status_.ok()) status_ = status;
    if (--left_ == 0) done_.notify_one();
  }

  const int count_;
  SubmissionFigures* const figures_;
  const int64_t begin_;
  v1::CreateJobRequest request_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::atomic<int> next_{0};
  std::mutex mutex_;
  std::condition_variable done_;
  int left_ = 0;         // guarded by mutex_
  absl::Status status_;  // guarded by mutex_
};

}  // namespace

v1::JobSpec LoadSpec() {
  v1::JobSpec spec;
  v1::ModelSpec& model = *spec.mutable_model();
  model.set_family(v1::ModelSpec::MASKED_LM);
  model.set_layers(2);
  model.set_hidden(64);
  model.set_heads(4);
  v1::DataSpec& data = *spec.mutable_data();
  data.mutable_code_directory()->add_roots("/usr/include");
  data.mutable_code_directory()->add_globs("*.h");
  data.mutable_tokenizer()->set_kind(v1::TokenizerSpec::BYTE_BPE);
  data.mutable_tokenizer()->set_train_vocabulary_size(1000);
  data.set_max_length(32);
  spec.mutable_compression()->set_method(v1::CompressionSpec::DENSE);
  spec.mutable_objective()->mutable_early()->set_steps(100);
  spec.mutable_training()->set_batch_size(8);
  spec.mutable_resources()->set_device(v1::ResourceSpec::CPU);
  spec.mutable_resources()->set_processes(1);
  return spec;
}

absl::Status SubmitJobs(const Channels& channels, const v1::JobSpec& spec,
                        int count, int clients, SubmissionFigures* figures) {
  return Submitters(spec, count, figures).Run(channels, clients);
}

}  // namespace comera::bench
