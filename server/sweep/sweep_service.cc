// Serves SweepService: checks requests and hands them to the sweeps' host.
#include "server/sweep/sweep_service.h"

#include <set>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/status_macros.h"
#include "proto/resource_names.h"
#include "proto/sweep/sweep_plan.h"
#include "server/rpc/rejected_stream.h"
#include "server/rpc/request_checks.h"
#include "server/rpc/rpc_errors.h"
#include "server/sweep/pareto_front.h"

namespace comera::server {
namespace {

constexpr int kDefaultPage = 50;
constexpr int kMaxPage = 1000;
constexpr int kMaxFrontNames = 64;
constexpr size_t kMaxFrontPoints = 4096;
constexpr char kTokenPrefix[] = "sweeps:";

absl::Status CheckName(const std::string& name) {
  if (ParseSweepName(name)) return absl::OkStatus();
  return InvalidField("name", "must be sweeps/{sweep}");
}

const std::string& QueueOf(const v1::Sweep& sweep) {
  static const std::string kDefault = "default";
  const std::string& queue = sweep.spec().job().queue();
  return queue.empty() ? kDefault : queue;
}

// The queues that the sweep's text names. Some of them may be wrong, and the
// base job's may have been replaced in every run.
std::set<std::string> NamedQueues(const v1::SweepSpec& spec) {
  constexpr char kPath[] = "queue";
  std::set<std::string> queues = {
      spec.job().queue().empty() ? "default" : spec.job().queue()};
  for (const v1::FieldValues& axis : spec.grid().fields()) {
    if (axis.path() != kPath) continue;
    queues.insert(axis.values().begin(), axis.values().end());
  }
  for (const v1::FieldRange& range : spec.random().fields()) {
    if (range.path() != kPath) continue;
    queues.insert(range.values().begin(), range.values().end());
  }
  for (const v1::SweepPoint& point : spec.list()) {
    for (const v1::FieldValue& field : point.fields()) {
      if (field.path() == kPath) queues.insert(field.value());
    }
  }
  return queues;
}

// PermissionDenied unless the caller may use one of the queues that the sweep
// names: planning takes time and memory, which is not for everybody to ask for.
absl::Status CheckMayPlan(const v1::SweepSpec& spec, const Caller& caller) {
  absl::Status refused;
  for (const std::string& queue : NamedQueues(spec)) {
    const absl::Status status = caller.Check(Permission::kUse, queue);
    if (status.ok()) return absl::OkStatus();
    refused.Update(status);
  }
  return refused;
}

// What can be told of a request before its runs are planned.
absl::Status CheckCreate(const v1::CreateSweepRequest& request,
                         const Caller& caller) {
  RETURN_IF_ERROR(CheckRequestId(request.request_id()));
  if (!request.has_spec()) return InvalidField("spec", "missing");
  RETURN_IF_ERROR(CheckMayPlan(request.spec(), caller));
  // Each run keeps it.
  RETURN_IF_ERROR(
      CheckSpecSize("spec.job", request.spec().job().ByteSizeLong()));
  return CheckSweepSize("spec", request.spec().ByteSizeLong());
}

absl::Status CheckQueues(const SweepPlan& plan, const Caller& caller) {
  for (const std::string& queue : plan.queues) {
    RETURN_IF_ERROR(caller.Check(Permission::kUse, queue));
  }
  return absl::OkStatus();
}

// The queues in which the sweep runs programs, and that the caller does not
// administer.
std::vector<std::string> OthersProgramQueues(const SweepPlan& plan,
                                             const Caller& caller) {
  std::vector<std::string> queues;
  for (const std::string& queue : plan.program_queues) {
    if (!caller.Check(Permission::kAdminister, queue).ok()) {
      queues.push_back(queue);
    }
  }
  return queues;
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

v1::ListSweepsResponse ToResponse(SweepPage page) {
  v1::ListSweepsResponse response;
  for (v1::Sweep& sweep : page.sweeps) {
    *response.add_sweeps() = std::move(sweep);
  }
  if (page.next > 0) response.set_next_page_token(Token(page.next));
  return response;
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
  return ServeUnary(
      access_, context, response, [&](const UnaryCall<v1::Sweep>& call) {
        const Caller& caller = *call.caller();
        RETURN_IF_ERROR(caller.CheckSize(request->ByteSizeLong()));
        RETURN_IF_ERROR(CheckCreate(*request, caller));
        if (!request->validate_only()) {
          RETURN_IF_ERROR(caller.ChargeSubmission());
        }
        sweeps_->Plan(
            request->spec(), caller.user(),
            [this, request, call](absl::StatusOr<PlannedSweep> planned) {
              absl::Status status = planned.status();
              if (status.ok()) {
                status = CheckQueues(planned->plan, *call.caller());
              }
              if (!status.ok()) return call.Finish(status);
              std::vector<std::string> queues =
                  OthersProgramQueues(planned->plan, *call.caller());
              sweeps_->Create(*request, *std::move(planned), std::move(queues),
                              call.caller()->user(), call);
            });
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* SweepService::GetSweep(
    grpc::CallbackServerContext* context, const v1::GetSweepRequest* request,
    v1::Sweep* response) {
  return ServeUnary(
      access_, context, response, [&](const UnaryCall<v1::Sweep>& call) {
        RETURN_IF_ERROR(CheckName(request->name()));
        sweeps_->Get(request->name(), [call](absl::StatusOr<v1::Sweep> sweep) {
          if (!sweep.ok()) return call.Finish(sweep.status());
          const absl::Status status =
              call.Check(Permission::kView, QueueOf(*sweep));
          if (!status.ok()) return call.Finish(status);
          call.Finish(std::move(sweep));
        });
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* SweepService::ListSweeps(
    grpc::CallbackServerContext* context, const v1::ListSweepsRequest* request,
    v1::ListSweepsResponse* response) {
  return ServeUnary(
      access_, context, response,
      [&](const UnaryCall<v1::ListSweepsResponse>& call) {
        if (request->page_size() < 0 || request->page_size() > kMaxPage) {
          return InvalidField("page_size", "must be 0 to 1000");
        }
        ASSIGN_OR_RETURN(const int64_t before,
                         ParseToken(request->page_token()));
        const int size =
            request->page_size() == 0 ? kDefaultPage : request->page_size();
        sweeps_->List(
            before, size,
            [call](const v1::Sweep& sweep) {
              return call.Check(Permission::kView, QueueOf(sweep)).ok();
            },
            [call](absl::StatusOr<SweepPage> page) {
              if (!page.ok()) return call.Finish(page.status());
              call.Finish(ToResponse(*std::move(page)));
            });
        return absl::OkStatus();
      });
}

template <typename Response>
void SweepService::ChangeOwnSweep(const std::string& name,
                                  const UnaryCall<Response>& call,
                                  std::function<void()> change) {
  sweeps_->Get(name, [=](const absl::StatusOr<v1::Sweep>& sweep) {
    if (!sweep.ok()) return call.Finish(sweep.status());
    const absl::Status status =
        call.caller()->CheckOwner(sweep->user(), QueueOf(*sweep));
    if (!status.ok()) return call.Finish(status);
    change();
  });
}

grpc::ServerUnaryReactor* SweepService::CancelSweep(
    grpc::CallbackServerContext* context, const v1::CancelSweepRequest* request,
    v1::Sweep* response) {
  return ServeUnary(
      access_, context, response, [&](const UnaryCall<v1::Sweep>& call) {
        RETURN_IF_ERROR(CheckName(request->name()));
        RETURN_IF_ERROR(CheckReason(request->reason()));
        ChangeOwnSweep(request->name(), call, [=] {
          sweeps_->Cancel(request->name(), request->reason(), call);
        });
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* SweepService::DeleteSweep(
    grpc::CallbackServerContext* context, const v1::DeleteSweepRequest* request,
    v1::DeleteSweepResponse* response) {
  return ServeUnary(access_, context, response,
                    [&](const UnaryCall<v1::DeleteSweepResponse>& call) {
                      RETURN_IF_ERROR(CheckName(request->name()));
                      ChangeOwnSweep(request->name(), call, [=] {
                        sweeps_->Delete(request->name(),
                                        [call](const absl::Status& status) {
                                          call.Finish(status);
                                        });
                      });
                      return absl::OkStatus();
                    });
}

grpc::ServerWriteReactor<v1::WatchSweepResponse>* SweepService::WatchSweep(
    grpc::CallbackServerContext* context,
    const v1::WatchSweepRequest* request) {
  absl::StatusOr<std::unique_ptr<Caller>> caller = access_->Identify(*context);
  if (!caller.ok()) {
    return RejectStream<v1::WatchSweepResponse>(caller.status());
  }
  if (absl::Status status = (*caller)->ChargeStream(); !status.ok()) {
    return RejectStream<v1::WatchSweepResponse>(status);
  }
  return StartWatchSweep(sweeps_, *std::move(caller), *request);
}

grpc::ServerUnaryReactor* SweepService::ComputeFront(
    grpc::CallbackServerContext* context,
    const v1::ComputeFrontRequest* request, v1::SweepFront* response) {
  return ServeUnary(
      access_, context, response, [&](const UnaryCall<v1::SweepFront>& call) {
        RETURN_IF_ERROR(CheckFrontRequest(*request));
        sweeps_->host().loop().Post([=] { AnswerFront(*request, call); });
        return absl::OkStatus();
      });
}

void SweepService::AnswerFront(const v1::ComputeFrontRequest& request,
                               const UnaryCall<v1::SweepFront>& call) {
  auto front = std::make_shared<ParetoFront>(kMaxFrontPoints);
  v1::ReferencePoint reference = request.reference();
  std::vector<std::string> jobs;
  for (const std::string& name : request.names()) {
    if (ParseJobName(name)) {
      jobs.push_back(name);
      continue;
    }
    const v1::Sweep* sweep = sweeps_->engine().Find(name);
    const absl::Status status =
        sweep == nullptr ? absl::NotFoundError(absl::StrCat("no ", name))
                         : call.Check(Permission::kView, QueueOf(*sweep));
    if (!status.ok()) return call.Finish(status);
    for (const v1::FrontPoint& point : sweep->front().points()) {
      front->Add(point);
    }
    if (reference.size_parameters() == 0) {
      reference = sweep->front().reference();
    }
  }
  sweeps_->ReadPoints(
      std::move(jobs),
      [call](const v1::Job& job) {
        return call.Check(Permission::kView, job.spec().queue());
      },
      [=](const absl::StatusOr<SweepHost::JobPoints>& points) {
        if (!points.ok()) return call.Finish(points.status());
        for (const v1::FrontPoint& point : points->points) front->Add(point);
        call.Finish(MakeSweepFront(*front, reference.size_parameters() > 0
                                               ? reference
                                               : points->reference));
      });
}

}  // namespace comera::server
