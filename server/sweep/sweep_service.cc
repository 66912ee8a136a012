#include "server/sweep/sweep_service.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proto/resource_names.h"
#include "proto/sweep_plan.h"
#include "server/rpc/refused_stream.h"
#include "server/rpc/rpc_errors.h"
#include "server/sweep/pareto_front.h"

namespace comera::server {
namespace {

constexpr size_t kMaxRequestId = 64;
constexpr size_t kMaxReasonBytes = 1024;
constexpr int kDefaultPage = 50;
constexpr int kMaxPage = 1000;
constexpr int kMaxFrontNames = 64;
constexpr size_t kMaxFrontPoints = 4096;
constexpr char kTokenPrefix[] = "sweeps:";

grpc::ServerUnaryReactor* Refuse(grpc::ServerUnaryReactor* reactor,
                                 const absl::Status& status) {
  reactor->Finish(ToRpcStatus(status));
  return reactor;
}

template <typename T>
std::function<void(absl::StatusOr<T>)> Finisher(
    grpc::ServerUnaryReactor* reactor, T* response) {
  return [reactor, response](absl::StatusOr<T> value) {
    if (value.ok()) *response = *std::move(value);
    reactor->Finish(ToRpcStatus(value.status()));
  };
}

absl::Status CheckName(const std::string& name) {
  if (ParseSweepName(name)) return absl::OkStatus();
  return InvalidField("name", "must be sweeps/{sweep}");
}

const std::string& QueueOf(const v1::Sweep& sweep) {
  static const std::string kDefault = "default";
  const std::string& queue = sweep.spec().job().queue();
  return queue.empty() ? kDefault : queue;
}

absl::Status CheckCreate(const v1::CreateSweepRequest& request,
                         const Caller& caller) {
  const std::string& id = request.request_id();
  if (id.size() > kMaxRequestId ||
      !std::all_of(id.begin(), id.end(),
                   [](char c) { return c > ' ' && c <= '~'; })) {
    return InvalidField("request_id", "at most 64 printable ASCII characters");
  }
  if (!request.has_spec()) return InvalidField("spec", "missing");
  std::vector<FieldViolation> violations;
  const SweepPlan plan = PlanSweep(request.spec(), &violations);
  if (!violations.empty()) return InvalidSpec(violations);
  std::set<std::string> queues;
  for (const SweepPlan::Run& run : plan.runs) queues.insert(run.spec.queue());
  for (const std::string& queue : queues) {
    const absl::Status status = caller.Check(Permission::kUse, queue);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

std::string Token(int64_t before_serial) {
  return absl::WebSafeBase64Escape(absl::StrCat(kTokenPrefix, before_serial));
}

absl::StatusOr<int64_t> ParseToken(const std::string& token) {
  if (token.empty()) return 0;
  std::string text;
  int64_t serial = 0;
  if (!absl::WebSafeBase64Unescape(token, &text) ||
      !absl::StartsWith(text, kTokenPrefix) ||
      !absl::SimpleAtoi(absl::StripPrefix(text, kTokenPrefix), &serial) ||
      serial < 1) {
    return InvalidField("page_token", "not one of this server's");
  }
  return serial;
}

absl::Status CheckFrontRequest(const v1::ComputeFrontRequest& request) {
  if (request.names().empty() || request.names_size() > kMaxFrontNames) {
    return InvalidField("names",
                        absl::StrCat("1 to ", kMaxFrontNames, " are possible"));
  }
  for (int i = 0; i < request.names_size(); ++i) {
    if (!ParseSweepName(request.names(i)) && !ParseJobName(request.names(i))) {
      return InvalidField(absl::StrCat("names[", i, "]"),
                          "must be sweeps/{sweep} or jobs/{job}");
    }
  }
  // Also refuses what is no number.
  if (request.has_reference() &&
      (!(request.reference().validation_loss() > 0) ||
       !(request.reference().validation_loss() < 1e12) ||
       request.reference().size_parameters() <= 0)) {
    return InvalidField("reference", "both must be above 0");
  }
  return absl::OkStatus();
}

}  // namespace

grpc::ServerUnaryReactor* SweepService::CreateSweep(
    grpc::CallbackServerContext* context, const v1::CreateSweepRequest* request,
    v1::Sweep* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const auto caller = Admit(access_, *context, reactor);
  if (caller == nullptr) return reactor;
  if (absl::Status status = caller->CheckSize(request->ByteSizeLong());
      !status.ok()) {
    return Refuse(reactor, status);
  }
  if (absl::Status status = CheckCreate(*request, *caller); !status.ok()) {
    return Refuse(reactor, status);
  }
  if (!request->validate_only()) {
    if (absl::Status status = caller->ChargeSubmission(); !status.ok()) {
      return Refuse(reactor, status);
    }
  }
  sweeps_->Create(*request, caller->user(), Finisher(reactor, response));
  return reactor;
}

grpc::ServerUnaryReactor* SweepService::GetSweep(
    grpc::CallbackServerContext* context, const v1::GetSweepRequest* request,
    v1::Sweep* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const auto caller = Admit(access_, *context, reactor);
  if (caller == nullptr) return reactor;
  if (absl::Status status = CheckName(request->name()); !status.ok()) {
    return Refuse(reactor, status);
  }
  sweeps_->Get(request->name(), [=](absl::StatusOr<v1::Sweep> sweep) {
    absl::Status status = sweep.status();
    if (status.ok()) status = caller->Check(Permission::kView, QueueOf(*sweep));
    if (status.ok()) *response = *std::move(sweep);
    reactor->Finish(ToRpcStatus(status));
  });
  return reactor;
}

grpc::ServerUnaryReactor* SweepService::ListSweeps(
    grpc::CallbackServerContext* context, const v1::ListSweepsRequest* request,
    v1::ListSweepsResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const auto caller = Admit(access_, *context, reactor);
  if (caller == nullptr) return reactor;
  if (request->page_size() < 0 || request->page_size() > kMaxPage) {
    return Refuse(reactor, InvalidField("page_size", "must be 0 to 1000"));
  }
  const absl::StatusOr<int64_t> before = ParseToken(request->page_token());
  if (!before.ok()) return Refuse(reactor, before.status());
  const int size =
      request->page_size() == 0 ? kDefaultPage : request->page_size();
  sweeps_->List(
      *before, size + 1,
      [caller](const v1::Sweep& sweep) {
        return caller->Check(Permission::kView, QueueOf(sweep)).ok();
      },
      [=](absl::StatusOr<SweepHost::Sweeps> sweeps) {
        if (sweeps.ok()) {
          for (size_t i = 0; i < sweeps->size(); ++i) {
            if (static_cast<int>(i) == size) {
              response->set_next_page_token(Token((*sweeps)[i - 1].first));
              break;
            }
            *response->add_sweeps() = std::move((*sweeps)[i].second);
          }
        }
        reactor->Finish(ToRpcStatus(sweeps.status()));
      });
  return reactor;
}

void SweepService::WithOwnSweep(const std::string& name,
                                std::shared_ptr<const Caller> caller,
                                grpc::ServerUnaryReactor* reactor,
                                std::function<void()> then) {
  sweeps_->Get(name, [=](const absl::StatusOr<v1::Sweep>& sweep) {
    absl::Status status = sweep.status();
    if (status.ok()) {
      status = caller->CheckOwner(sweep->user(), QueueOf(*sweep));
    }
    if (!status.ok()) return reactor->Finish(ToRpcStatus(status));
    then();
  });
}

grpc::ServerUnaryReactor* SweepService::CancelSweep(
    grpc::CallbackServerContext* context, const v1::CancelSweepRequest* request,
    v1::Sweep* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const auto caller = Admit(access_, *context, reactor);
  if (caller == nullptr) return reactor;
  if (absl::Status status = CheckName(request->name()); !status.ok()) {
    return Refuse(reactor, status);
  }
  if (request->reason().size() > kMaxReasonBytes) {
    return Refuse(reactor, InvalidField("reason", "at most 1024 bytes"));
  }
  WithOwnSweep(request->name(), caller, reactor, [=] {
    sweeps_->Cancel(request->name(), request->reason(),
                    Finisher(reactor, response));
  });
  return reactor;
}

grpc::ServerUnaryReactor* SweepService::DeleteSweep(
    grpc::CallbackServerContext* context, const v1::DeleteSweepRequest* request,
    v1::DeleteSweepResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const auto caller = Admit(access_, *context, reactor);
  if (caller == nullptr) return reactor;
  if (absl::Status status = CheckName(request->name()); !status.ok()) {
    return Refuse(reactor, status);
  }
  WithOwnSweep(request->name(), caller, reactor, [=] {
    sweeps_->Delete(request->name(), [reactor](const absl::Status& status) {
      reactor->Finish(ToRpcStatus(status));
    });
  });
  return reactor;
}

grpc::ServerWriteReactor<v1::WatchSweepResponse>* SweepService::WatchSweep(
    grpc::CallbackServerContext* context,
    const v1::WatchSweepRequest* request) {
  absl::StatusOr<std::unique_ptr<Caller>> caller = access_->Identify(*context);
  if (!caller.ok()) {
    return RefuseStream<v1::WatchSweepResponse>(caller.status());
  }
  if (absl::Status status = (*caller)->ChargeStream(); !status.ok()) {
    return RefuseStream<v1::WatchSweepResponse>(status);
  }
  return StartWatchSweep(sweeps_, *std::move(caller), *request);
}

grpc::ServerUnaryReactor* SweepService::ComputeFront(
    grpc::CallbackServerContext* context,
    const v1::ComputeFrontRequest* request, v1::SweepFront* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const auto caller = Admit(access_, *context, reactor);
  if (caller == nullptr) return reactor;
  if (absl::Status status = CheckFrontRequest(*request); !status.ok()) {
    return Refuse(reactor, status);
  }
  sweeps_->host().loop().Post([=] {
    auto front = std::make_shared<ParetoFront>(kMaxFrontPoints);
    v1::ReferencePoint reference = request->reference();
    std::vector<std::string> jobs;
    for (const std::string& name : request->names()) {
      if (ParseJobName(name)) {
        jobs.push_back(name);
        continue;
      }
      const v1::Sweep* sweep = sweeps_->engine().Find(name);
      absl::Status status =
          sweep == nullptr ? absl::NotFoundError(absl::StrCat("no ", name))
                           : caller->Check(Permission::kView, QueueOf(*sweep));
      if (!status.ok()) return reactor->Finish(ToRpcStatus(status));
      for (const v1::FrontPoint& point : sweep->front().points()) {
        front->Add(point);
      }
      if (reference.size_parameters() == 0) {
        reference = sweep->front().reference();
      }
    }
    sweeps_->ReadPoints(
        std::move(jobs),
        [caller](const v1::Job& job) {
          return caller->Check(Permission::kView, job.spec().queue());
        },
        [=](const absl::StatusOr<SweepHost::JobPoints>& points) {
          if (points.ok()) {
            for (const v1::FrontPoint& point : points->points) {
              front->Add(point);
            }
            *response = MakeSweepFront(*front, reference.size_parameters() > 0
                                                   ? reference
                                                   : points->reference);
          }
          reactor->Finish(ToRpcStatus(points.status()));
        });
  });
  return reactor;
}

}  // namespace comera::server
