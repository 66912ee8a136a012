// Calls SweepService, and follows sweeps over reconnecting streams.

#include "client/sweep_client.h"

#include <utility>

#include "client/service_calls.h"
#include "comera/v1/sweep_service.grpc.pb.h"
#include "common/status_macros.h"
#include "grpcpp/grpcpp.h"

namespace comera::client {
namespace {

constexpr int kPageSize = 500;

bool IsFinal(v1::Sweep::State state) {
  return state == v1::Sweep::SUCCEEDED || state == v1::Sweep::FAILED ||
         state == v1::Sweep::CANCELLED;
}

}  // namespace

class SweepClient::Impl : public ServiceCalls<v1::SweepService> {
 public:
  using ServiceCalls::ServiceCalls;
};

SweepClient::SweepClient(std::shared_ptr<grpc::Channel> channel,
                         const TrainingClient::Options& options)
    : impl_(std::make_unique<Impl>(std::move(channel), options)) {}

SweepClient::~SweepClient() { Stop(); }

absl::StatusOr<v1::Sweep> SweepClient::Submit(const v1::SweepSpec& spec,
                                              const SubmitOptions& options) {
  v1::CreateSweepRequest request;
  *request.mutable_spec() = spec;
  request.set_request_id(options.request_id.empty() ? RandomId()
                                                    : options.request_id);
  request.set_validate_only(options.validate_only);
  return impl_->Call(&v1::SweepService::Stub::CreateSweep, request);
}

absl::StatusOr<v1::Sweep> SweepClient::Get(const std::string& name) {
  v1::GetSweepRequest request;
  request.set_name(name);
  return impl_->Call(&v1::SweepService::Stub::GetSweep, request);
}

absl::StatusOr<std::vector<v1::Sweep>> SweepClient::List(int64_t limit) {
  std::vector<v1::Sweep> sweeps;
  v1::ListSweepsRequest request;
  request.set_page_size(kPageSize);
  do {
    ASSIGN_OR_RETURN(v1::ListSweepsResponse page,
                     impl_->Call(&v1::SweepService::Stub::ListSweeps, request));
    for (v1::Sweep& sweep : *page.mutable_sweeps()) {
      if (limit > 0 && static_cast<int64_t>(sweeps.size()) == limit) {
        return sweeps;
      }
      sweeps.push_back(std::move(sweep));
    }
    RETURN_IF_ERROR(
        CheckPageToken(page.next_page_token(), request.page_token()));
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return sweeps;
}

absl::StatusOr<v1::Sweep> SweepClient::Cancel(const std::string& name,
                                              const std::string& reason) {
  v1::CancelSweepRequest request;
  request.set_name(name);
  request.set_reason(reason);
  return impl_->Call(&v1::SweepService::Stub::CancelSweep, request);
}

absl::Status SweepClient::Delete(const std::string& name) {
  v1::DeleteSweepRequest request;
  request.set_name(name);
  return impl_->Call(&v1::SweepService::Stub::DeleteSweep, request).status();
}

absl::StatusOr<v1::SweepFront> SweepClient::ComputeFront(
    const v1::ComputeFrontRequest& request) {
  return impl_->Call(&v1::SweepService::Stub::ComputeFront, request);
}

absl::StatusOr<v1::Sweep> SweepClient::Watch(
    const std::string& name,
    const std::function<void(const v1::Sweep&)>& on_sweep,
    const std::function<void(const v1::SweepEvent&)>& on_event) {
  int64_t last = 0;
  bool final = false;
  RETURN_IF_ERROR(impl_->runner().Stream(
      absl::InfiniteFuture(), [&](grpc::ClientContext* context) {
        v1::WatchSweepRequest request;
        request.set_name(name);
        request.set_after_sequence(last);
        auto reader = impl_->stub().WatchSweep(context, request);
        CallRunner::StreamEnd end;
        v1::WatchSweepResponse response;
        while (reader->Read(&response)) {
          end.progressed = true;
          if (response.has_sweep()) {
            final = final || IsFinal(response.sweep().state());
            if (on_sweep) on_sweep(response.sweep());
            continue;
          }
          const v1::SweepEvent& event = response.event();
          if (event.sequence() <= last) continue;
          last = event.sequence();
          final = final || (event.has_state_change() &&
                            IsFinal(event.state_change().state()));
          if (on_event) on_event(event);
        }
        end.status = reader->Finish();
        // A quiet sweep may bring nothing for a stream's whole lifetime.
        end.progressed |=
            end.status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
        // Only a stream that the server ended has sent everything.
        end.done = end.status.ok() && final;
        return end;
      }));
  return Get(name);
}

void SweepClient::Stop() { impl_->runner().Stop(); }

void ApplySweepEvent(const v1::SweepEvent& event, v1::Sweep* sweep) {
  switch (event.event_case()) {
    case v1::SweepEvent::kStateChange:
      sweep->set_state(event.state_change().state());
      sweep->set_outcome(event.state_change().outcome());
      sweep->set_reason(event.state_change().reason());
      break;
    case v1::SweepEvent::kRun:
      if (event.run().index() >= 0 &&
          event.run().index() < sweep->runs_size()) {
        *sweep->mutable_runs(event.run().index()) = event.run();
      }
      break;
    case v1::SweepEvent::kStage:
      if (event.stage().index() >= 0 &&
          event.stage().index() < sweep->stages_size()) {
        *sweep->mutable_stages(event.stage().index()) = event.stage();
      }
      break;
    case v1::SweepEvent::kFront:
      *sweep->mutable_front() = event.front();
      break;
    case v1::SweepEvent::kSearch:
      *sweep->mutable_search() = event.search();
      break;
    case v1::SweepEvent::EVENT_NOT_SET:
      break;
  }
}

}  // namespace comera::client
