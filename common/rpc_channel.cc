// Builds credentials from files and tokens, reloads them when they change, and
// opens channels.

#include "common/rpc_channel.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/coordinator_address.h"
#include "common/files.h"
#include "common/loopback.h"
#include "common/status_macros.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/security/tls_certificate_provider.h"
#include "grpcpp/security/tls_credentials_options.h"

namespace comera {
namespace {

// The longest is one of single sign-on (kMaxJsonWebToken of common/openid).
constexpr size_t kMaxTokenBytes = 7 << 10;
// The time between two checks of the certificate files.
constexpr unsigned kRefreshSeconds = 10;

absl::Status CheckToken(const std::string& token, const std::string& where) {
  if (token.empty() || token.size() > kMaxTokenBytes ||
      !std::all_of(token.begin(), token.end(),
                   [](char c) { return c > ' ' && c <= '~'; })) {
    // The message must not contain the token.
    return absl::InvalidArgumentError(absl::StrCat(where, ": holds no token"));
  }
  return absl::OkStatus();
}

// Provides the current token. Thread-safe.
class TokenSource {
 public:
  static absl::StatusOr<std::shared_ptr<TokenSource>> Create(
      const ChannelSecurity& security) {
    auto source = std::make_shared<TokenSource>();
    const std::lock_guard<std::mutex> lock(source->mutex_);
    source->file_ = security.token.empty() ? security.token_file : "";
    source->token_ = security.token;
    if (source->file_.empty()) {
      RETURN_IF_ERROR(CheckToken(source->token_, "token"));
    } else {
      RETURN_IF_ERROR(source->Read());
    }
    return source;
  }

  std::string Get() {
    std::lock_guard<std::mutex> lock(mutex_);
    // While the file cannot be read, the last token stays in use.
    if (!file_.empty()) Read().IgnoreError();
    return token_;
  }

 private:
  absl::Status Read() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    struct stat info = {};
    if (stat(file_.c_str(), &info) != 0) return ErrnoStatus(errno, file_);
    if (S_ISREG(info.st_mode) &&
        info.st_size > static_cast<off_t>(2 * kMaxTokenBytes)) {
      return absl::InvalidArgumentError(absl::StrCat(file_, ": too long"));
    }
    const std::pair<int64_t, int64_t> stamp = {info.st_mtim.tv_sec,
                                               info.st_mtim.tv_nsec};
    if (!token_.empty() && stamp == stamp_) return absl::OkStatus();
    ASSIGN_OR_RETURN(const std::string contents, ReadFile(file_));
    const std::string token(absl::StripAsciiWhitespace(contents));
    RETURN_IF_ERROR(CheckToken(token, file_));
    token_ = token;
    stamp_ = stamp;
    return absl::OkStatus();
  }

  std::string file_;
  std::mutex mutex_;
  std::string token_ ABSL_GUARDED_BY(mutex_);
  std::pair<int64_t, int64_t> stamp_ ABSL_GUARDED_BY(mutex_) = {0, 0};
};

class TokenInterceptor : public grpc::experimental::Interceptor {
 public:
  explicit TokenInterceptor(TokenSource* source) : source_(source) {}

  void Intercept(
      grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(
            grpc::experimental::InterceptionHookPoints::
                PRE_SEND_INITIAL_METADATA)) {
      methods->GetSendInitialMetadata()->emplace(
          "authorization", absl::StrCat("Bearer ", source_->Get()));
    }
    methods->Proceed();
  }

 private:
  TokenSource* const source_;
};

class TokenInterceptorFactory
    : public grpc::experimental::ClientInterceptorFactoryInterface {
 public:
  explicit TokenInterceptorFactory(std::shared_ptr<TokenSource> source)
      : source_(std::move(source)) {}

  grpc::experimental::Interceptor* CreateClientInterceptor(
      grpc::experimental::ClientRpcInfo*) override {
    return new TokenInterceptor(source_.get());
  }

 private:
  const std::shared_ptr<TokenSource> source_;
};

// Checks the file here, because gRPC would retry for ever without a message.
absl::Status CheckPem(const std::string& path, const std::string& begin) {
  ASSIGN_OR_RETURN(const std::string contents, ReadFile(path));
  if (contents.find(begin) == std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": no PEM file with \"", begin, "...\""));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> Credentials(
    const ChannelSecurity& security) {
  const bool own = !security.certificate_file.empty();
  if (own != !security.key_file.empty()) {
    return absl::InvalidArgumentError(
        "a certificate and its key go together: both or none");
  }
  if (security.ca_file.empty()) {
    if (own) {
      return absl::InvalidArgumentError(
          "a certificate needs TLS: name the authority of the coordinator's "
          "certificate too");
    }
    return grpc::InsecureChannelCredentials();
  }
  const std::string roots =
      security.ca_file == "system" ? "" : security.ca_file;
  if (!roots.empty()) RETURN_IF_ERROR(CheckPem(roots, "-----BEGIN CERT"));
  if (own) {
    RETURN_IF_ERROR(CheckPem(security.certificate_file, "-----BEGIN CERT"));
    RETURN_IF_ERROR(CheckPem(security.key_file, "-----BEGIN "));
  }
  grpc::experimental::TlsChannelCredentialsOptions options;
  if (own || !roots.empty()) {
    options.set_certificate_provider(
        std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
            security.key_file, security.certificate_file, roots,
            kRefreshSeconds));
  }
  if (!roots.empty()) options.watch_root_certs();
  if (own) options.watch_identity_key_cert_pairs();
  options.set_verify_server_certs(true);
  return grpc::experimental::TlsCredentials(options);
}

// Whether traffic to `address` is invisible outside this machine.
bool StaysHere(const std::string& address) {
  if (absl::StrContains(address, ",")) {
    for (absl::string_view one : absl::StrSplit(address, ',')) {
      if (!StaysHere(std::string(one))) return false;
    }
    return true;
  }
  if (address.rfind("unix:", 0) == 0) return true;
  std::string host = address;
  for (const char* scheme : {"dns:///", "dns:", "ipv4:", "ipv6:"}) {
    if (host.rfind(scheme, 0) == 0) host = host.substr(strlen(scheme));
  }
  return IsLoopback(host.substr(0, host.rfind(':')));
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenChannel(
    const std::string& address, const ChannelSecurity& security,
    const grpc::ChannelArguments& arguments, ChannelInterceptors interceptors) {
  grpc::ChannelArguments all = arguments;
  ASSIGN_OR_RETURN(const std::string target, CoordinatorTarget(address, &all));
  ASSIGN_OR_RETURN(auto credentials, Credentials(security));
  if (security.token.empty() && security.token_file.empty()) {
    return grpc::experimental::CreateCustomChannelWithInterceptors(
        target, credentials, all, std::move(interceptors));
  }
  ASSIGN_OR_RETURN(auto source, TokenSource::Create(security));
  if (security.ca_file.empty() && !security.insecure_token &&
      !StaysHere(address)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the token would travel to ", address,
        " unencrypted: give the authority of its certificate (--ca, "
        "COMERA_CA), or --insecure-token to send it nevertheless"));
  }
  interceptors.push_back(
      std::make_unique<TokenInterceptorFactory>(std::move(source)));
  return grpc::experimental::CreateCustomChannelWithInterceptors(
      target, credentials, all, std::move(interceptors));
}

}  // namespace comera
