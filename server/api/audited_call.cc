// Intercepts calls to write the audit log, and makes the entries of calls that
// change jobs.
#include "server/api/audited_call.h"

#include <string_view>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace comera::server {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::InterceptorBatchMethods;

constexpr char kPackage[] = "/comera.v1.";
constexpr char kReflection[] = "/grpc.reflection.";
constexpr size_t kMaxText = 200;

// Calls that change nothing begin with one of these.
constexpr const char* kReading[] = {
    "Get",   "List",    "Watch",    "Read",   "Download", "Describe",
    "Query", "Explain", "Validate", "WhoAmI", "Compute",  "Try"};
// They write their entry themselves, when they succeed.
constexpr const char* kSelfAudited[] = {"TrainingService.CreateJob",
                                        "TrainingService.CancelJob"};

// "TrainingService.CancelJob".
std::string ShortMethod(const std::string& method) {
  return absl::StrReplaceAll(method.substr(sizeof(kPackage) - 1), {{"/", "."}});
}

bool Changes(const std::string& method) {
  const size_t dot = method.find('.');
  const std::string service = method.substr(0, dot);
  if (service == "WorkerService" || dot == std::string::npos) return false;
  const std::string name = method.substr(dot + 1);
  for (const char* reading : kReading) {
    if (absl::StartsWith(name, reading)) return false;
  }
  return true;
}

bool AuditsItself(const std::string& method) {
  for (const char* one : kSelfAudited) {
    if (method == one) return true;
  }
  return false;
}

bool WasRefused(grpc::StatusCode code) {
  return code == grpc::StatusCode::UNAUTHENTICATED ||
         code == grpc::StatusCode::PERMISSION_DENIED ||
         code == grpc::StatusCode::RESOURCE_EXHAUSTED;
}

std::string Cut(const std::string& text) {
  return absl::CEscape(text.substr(0, kMaxText)).substr(0, kMaxText);
}

std::string StringField(const Message& message, const std::string& name) {
  const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(name);
  if (field == nullptr || field->is_repeated() ||
      field->cpp_type() != FieldDescriptor::CPPTYPE_STRING) {
    return "";
  }
  return message.GetReflection()->GetString(message, field);
}

// The resource that a request or an answer is about: its name, that of the
// resource inside it, that of the parent, or alias and model.
std::string FindResource(const Message& message) {
  std::string name = StringField(message, "name");
  const google::protobuf::Descriptor* descriptor = message.GetDescriptor();
  for (int i = 0; i < descriptor->field_count() && name.empty(); ++i) {
    const FieldDescriptor* field = descriptor->field(i);
    if (field->is_repeated() ||
        field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE ||
        !message.GetReflection()->HasField(message, field)) {
      continue;
    }
    name = StringField(message.GetReflection()->GetMessage(message, field),
                       "name");
  }
  if (name.empty()) name = StringField(message, "parent");
  if (!name.empty()) return name;
  // An entry names both an alias and its model.
  const std::string alias = StringField(message, "alias");
  const std::string model = StringField(message, "model");
  return absl::StrCat(alias, alias.empty() || model.empty() ? "" : " ", model);
}

bool IsDryRun(const Message& message) {
  const FieldDescriptor* field =
      message.GetDescriptor()->FindFieldByName("validate_only");
  return field != nullptr && !field->is_repeated() &&
         field->cpp_type() == FieldDescriptor::CPPTYPE_BOOL &&
         message.GetReflection()->GetBool(message, field);
}

class CallAuditor : public grpc::experimental::Interceptor {
 public:
  CallAuditor(grpc::ServerContextBase* context, std::string method,
              TokenAccess* access, const ForwardedCalls* forwarded,
              AuditLog* log, std::atomic<int64_t>* counter)
      : context_(context),
        method_(std::move(method)),
        changes_(Changes(method_)),
        access_(access),
        forwarded_(forwarded),
        log_(log),
        counter_(counter) {}

  void Intercept(InterceptorBatchMethods* methods) override {
    if (changes_) NoteRequest(methods);
    if (!methods->QueryInterceptionHookPoint(
            InterceptionHookPoints::PRE_SEND_STATUS)) {
      return methods->Proceed();
    }
    const grpc::Status status = methods->GetSendStatus();
    if (!status.ok()) {
      if (changes_ || WasRefused(status.error_code())) {
        log_->RecordFailure(Entry(status));
      }
      return methods->Proceed();
    }
    if (changes_) ++*counter_;
    if (!changes_ || AuditsItself(method_)) return methods->Proceed();
    // The answer waits for its entry.
    log_->Record(Entry(status), [methods](const absl::Status& written) {
      if (!written.ok()) {
        methods->ModifySendStatus(grpc::Status(
            grpc::StatusCode::UNAVAILABLE, "the audit log cannot be written"));
      }
      methods->Proceed();
    });
  }

 private:
  void NoteRequest(InterceptorBatchMethods* methods) {
    if (methods->QueryInterceptionHookPoint(
            InterceptionHookPoints::POST_RECV_INITIAL_METADATA)) {
      // Now: the call may end its own token.
      Identify();
    }
    if (methods->QueryInterceptionHookPoint(
            InterceptionHookPoints::POST_RECV_MESSAGE) &&
        resource_.empty()) {
      const auto* request = static_cast<Message*>(methods->GetRecvMessage());
      if (request != nullptr) {
        resource_ = FindResource(*request);
        if (IsDryRun(*request)) changes_ = false;
      }
    }
    if (methods->QueryInterceptionHookPoint(
            InterceptionHookPoints::PRE_SEND_MESSAGE) &&
        resource_.empty()) {
      const auto* response =
          static_cast<const Message*>(methods->GetSendMessage());
      if (response != nullptr) resource_ = FindResource(*response);
    }
  }

  void Identify() {
    const auto token = access_->FindToken(*context_);
    if (!token.ok() || *token == nullptr) return;
    user_ = (*token)->user();
    token_ = (*token)->name();
  }

  v1::AuditEntry Entry(const grpc::Status& status) {
    if (!changes_) Identify();
    v1::AuditEntry entry;
    entry.set_user(user_);
    entry.set_token(token_);
    entry.set_method(method_);
    entry.set_resource(Cut(resource_));
    entry.set_result(absl::StatusCodeToString(
        static_cast<absl::StatusCode>(status.error_code())));
    // Messages about bad requests repeat what the request holds.
    if (status.error_code() != grpc::StatusCode::INVALID_ARGUMENT) {
      entry.set_message(Cut(status.error_message()));
    }
    entry.set_peer(Cut(forwarded_->Peer(*context_)));
    return entry;
  }

  grpc::ServerContextBase* const context_;
  const std::string method_;
  bool changes_;
  TokenAccess* const access_;
  const ForwardedCalls* const forwarded_;
  AuditLog* const log_;
  std::atomic<int64_t>* const counter_;
  std::string user_;
  std::string token_;
  std::string resource_;
};

class ReflectionGuard : public grpc::experimental::Interceptor {
 public:
  ReflectionGuard(grpc::ServerContextBase* context, TokenAccess* access)
      : context_(context), access_(access) {}

  void Intercept(InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(
            InterceptionHookPoints::POST_RECV_INITIAL_METADATA) &&
        !access_->FindToken(*context_).ok()) {
      // An interceptor cannot answer: the call is cancelled.
      context_->TryCancel();
    }
    methods->Proceed();
  }

 private:
  grpc::ServerContextBase* const context_;
  TokenAccess* const access_;
};

class Factory : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  Factory(TokenAccess* access, const ForwardedCalls* forwarded, AuditLog* log,
          std::atomic<int64_t>* counter)
      : access_(access), forwarded_(forwarded), log_(log), counter_(counter) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* info) override {
    const std::string method = info->method();
    if (absl::StartsWith(method, kReflection)) {
      return new ReflectionGuard(info->server_context(), access_);
    }
    if (log_ == nullptr || !absl::StartsWith(method, kPackage)) return nullptr;
    return new CallAuditor(info->server_context(), ShortMethod(method), access_,
                           forwarded_, log_, counter_);
  }

 private:
  TokenAccess* const access_;
  const ForwardedCalls* const forwarded_;
  AuditLog* const log_;
  std::atomic<int64_t>* const counter_;
};

}  // namespace

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
MakeCallAuditor(TokenAccess* access, const ForwardedCalls* forwarded,
                AuditLog* log, std::atomic<int64_t>* changes) {
  return std::make_unique<Factory>(access, forwarded, log, changes);
}

bool ChangesSomething(const std::string& method) {
  return absl::StartsWith(method, kPackage) && Changes(ShortMethod(method));
}

JobAudit AuditJobChange(const Caller& caller,
                        const grpc::CallbackServerContext& context,
                        const std::string& method) {
  v1::AuditEntry entry;
  entry.set_user(caller.user());
  entry.set_token(caller.token());
  entry.set_method(method);
  entry.set_result("OK");
  entry.set_peer(Cut(caller.peer().empty() ? context.peer() : caller.peer()));
  return [entry](const v1::Job& job, absl::Time now) {
    v1::AuditEntry one = entry;
    one.set_resource(job.name());
    return AuditLog::ToRow(one, now);
  };
}

}  // namespace comera::server
