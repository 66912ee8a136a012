// Runs a trainer as a prediction server and exchanges JSON lines with it.

#include "client/predict/local_predictor.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/files.h"
#include "common/status_macros.h"
#include "google/protobuf/util/json_util.h"

namespace comera::client {
namespace {

// The size limit of one answer's line.
constexpr size_t kMaxLine = size_t{256} << 20;
constexpr off_t kErrorTail = 2000;
// Variables with this prefix are meant for a coordinator, tokens among them,
// and must not reach the child.
constexpr char kOwn[] = "COMERA_";

// Runs in the child: only async-signal-safe calls. Returns errno if exec
// failed.
int Become(char* const* argv, char* const* environment, int stream, int errors,
           pid_t parent) {
  // This side handles Ctrl-C in the terminal.
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent may have died before prctl.
  if (getppid() != parent) _exit(1);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  if (dup2(stream, STDIN_FILENO) < 0 || dup2(stream, STDOUT_FILENO) < 0 ||
      dup2(errors, STDERR_FILENO) < 0) {
    return errno;
  }
  execve(argv[0], argv, environment);
  return errno;
}

}  // namespace

absl::Status LocalPredictor::Launch(const std::vector<std::string>& command) {
  errors_ = memfd_create("errors", MFD_CLOEXEC);
  if (errors_ < 0) return ErrnoStatus(errno, "memfd_create");
  // A socket, so that writing to a child that has ended raises no signal.
  int ends[2], failure[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return ErrnoStatus(errno, "socketpair");
  }
  input_ = output_ = ends[0];
  // Carries the errno of a failed exec; a successful exec closes it.
  if (pipe2(failure, O_CLOEXEC) != 0) {
    const int error = errno;
    close(ends[1]);
    return ErrnoStatus(error, "pipe");
  }
  std::vector<char*> argv, environment;
  for (const std::string& argument : command) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (strncmp(*entry, kOwn, sizeof(kOwn) - 1) != 0) {
      environment.push_back(*entry);
    }
  }
  environment.push_back(nullptr);
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ == 0) {
    const int error =
        Become(argv.data(), environment.data(), ends[1], errors_, parent);
    if (write(failure[1], &error, sizeof(error)) < 0) _exit(126);
    _exit(127);
  }
  const int fork_error = errno;
  close(ends[1]);
  close(failure[1]);
  int error = 0;
  ssize_t got = 0;
  while (pid_ > 0 && (got = read(failure[0], &error, sizeof(error))) < 0 &&
         errno == EINTR) {
  }
  close(failure[0]);
  if (pid_ < 0) return ErrnoStatus(fork_error, "fork");
  if (got == sizeof(error)) return ErrnoStatus(error, command[0]);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<LocalPredictor>> LocalPredictor::Start(
    const std::vector<std::string>& command) {
  auto predictor = absl::WrapUnique(new LocalPredictor);
  RETURN_IF_ERROR(predictor->Launch(command));
  ASSIGN_OR_RETURN(const std::string line, predictor->ReceiveLine());
  google::protobuf::util::JsonParseOptions lenient;
  // A newer program may send more fields.
  lenient.ignore_unknown_fields = true;
  if (!google::protobuf::util::JsonStringToMessage(line, &predictor->model_,
                                                   lenient)
           .ok()) {
    return absl::InternalError("comera-trainer does not tell its model");
  }
  return predictor;
}

LocalPredictor::~LocalPredictor() {
  Stop();
  if (input_ >= 0) close(input_);
  if (errors_ >= 0) close(errors_);
  while (pid_ > 0 && waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void LocalPredictor::Stop() {
  stopped_ = true;
  // It is reaped only by the destructor, so the number still belongs to the
  // child.
  if (pid_ > 0) kill(pid_, SIGKILL);
}

absl::Status LocalPredictor::EndOfProgram() {
  if (stopped_) return absl::CancelledError("stopped");
  std::string said;
  const off_t size = lseek(errors_, 0, SEEK_END);
  const off_t from = size > kErrorTail ? size - kErrorTail : 0;
  said.resize(static_cast<size_t>(size - from));
  const ssize_t got = pread(errors_, said.data(), said.size(), from);
  said.resize(got < 0 ? 0 : static_cast<size_t>(got));
  absl::string_view text = absl::StripAsciiWhitespace(said);
  absl::ConsumePrefix(&text, "comera-trainer: ");
  return absl::FailedPreconditionError(text.empty() ? "comera-trainer ended"
                                                    : std::string(text));
}

absl::Status LocalPredictor::Send(const std::string& line) {
  absl::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t put = send(input_, rest.data(), rest.size(), MSG_NOSIGNAL);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return EndOfProgram();
    rest.remove_prefix(static_cast<size_t>(put));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> LocalPredictor::ReceiveLine() {
  size_t searched = 0;
  while (true) {
    const size_t end = received_.find('\n', searched);
    if (end != std::string::npos) {
      std::string line = received_.substr(0, end);
      received_.erase(0, end + 1);
      return line;
    }
    searched = received_.size();
    if (searched > kMaxLine) {
      return absl::ResourceExhaustedError("comera-trainer says too much");
    }
    char buffer[1 << 16];
    const ssize_t got = read(output_, buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return EndOfProgram();
    received_.append(buffer, static_cast<size_t>(got));
  }
}

absl::Status LocalPredictor::Ask(const v1::PredictRequest& request) {
  if (stopped_) return absl::CancelledError("stopped");
  std::string line;
  const auto written =
      google::protobuf::util::MessageToJsonString(request, &line);
  if (!written.ok()) {
    return absl::InvalidArgumentError(std::string(written.message()));
  }
  return Send(line + "\n");
}

absl::StatusOr<v1::PredictResponse> LocalPredictor::Answer() {
  ASSIGN_OR_RETURN(const std::string line, ReceiveLine());
  v1::PredictResponse response;
  google::protobuf::util::JsonParseOptions lenient;
  lenient.ignore_unknown_fields = true;
  const auto parsed =
      google::protobuf::util::JsonStringToMessage(line, &response, lenient);
  if (!parsed.ok()) {
    return absl::InternalError(absl::StrCat("comera-trainer gives no answer: ",
                                            std::string(parsed.message())));
  }
  if (!response.error().empty()) {
    return absl::InvalidArgumentError(response.error());
  }
  return response;
}

absl::StatusOr<v1::PredictResponse> LocalPredictor::Predict(
    const v1::PredictRequest& request) {
  RETURN_IF_ERROR(Ask(request));
  ASSIGN_OR_RETURN(v1::PredictResponse response, Answer());
  if (response.predictions_size() != request.rows_size()) {
    return absl::InternalError("comera-trainer answers other rows");
  }
  return response;
}

absl::Status LocalPredictor::Generate(
    const v1::GenerateRequest& request,
    const std::function<absl::Status(const v1::GenerateResponse&)>& take) {
  if (model_.max_generations() <= 0) {
    return absl::FailedPreconditionError(
        "the model generates no text: only models of the family causal_lm do");
  }
  v1::PredictRequest asked;
  *asked.mutable_generate() = request;
  RETURN_IF_ERROR(Ask(asked));
  while (true) {
    ASSIGN_OR_RETURN(const v1::PredictResponse response, Answer());
    if (!response.has_generated()) {
      return absl::InternalError("comera-trainer answers another request");
    }
    RETURN_IF_ERROR(take(response.generated()));
    if (response.generated().finish() !=
        v1::GenerateResponse::FINISH_UNSPECIFIED) {
      return absl::OkStatus();
    }
  }
}

}  // namespace comera::client
