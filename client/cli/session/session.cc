// Resolves global flags, environment and login into clients and output.

#include "client/cli/session/session.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/output/message_text.h"
#include "client/cli/output/style.h"
#include "client/cli/output/terminal_text.h"
#include "client/cli/output/text_format.h"
#include "client/cli/session/exit_codes.h"
#include "client/cli/session/issuer_login.h"
#include "grpcpp/grpcpp.h"
#include "proto/resource_names.h"

namespace comera::client {
namespace {

constexpr char kDefaultServer[] = "127.0.0.1:7400";

}  // namespace

std::string Session::ServerAddress() const {
  if (!server.empty()) return server;
  if (!env.server.empty()) return env.server;
  const Login login = ReadLogin(env.config_file);
  return login.server.empty() ? kDefaultServer : login.server;
}

ChannelSecurity Session::Security(bool refresh) const {
  const Login stored = ReadLogin(env.config_file);
  Login login = stored.server == ServerAddress() ? stored : Login();
  const auto first = [](const std::string& a, const std::string& b,
                        const std::string& c) {
    return !a.empty() ? a : !b.empty() ? b : c;
  };
  ChannelSecurity security;
  security.ca_file = first(ca, env.ca, login.ca_file);
  security.certificate_file =
      first(certificate, env.certificate, login.certificate_file);
  security.key_file = first(key, env.key, login.key_file);
  security.insecure_token = insecure_token || login.insecure_token;
  if (!token_file.empty()) {
    security.token_file = token_file;
  } else if (!env.token.empty()) {
    security.token = env.token;
  } else if (!env.token_file.empty()) {
    security.token_file = env.token_file;
  } else {
    const absl::Status fresh =
        refresh ? RefreshLogin(env.config_file, &login) : absl::OkStatus();
    if (!fresh.ok()) {
      Note(absl::StrCat("the login cannot be refreshed at ", login.issuer, ": ",
                        Printable(std::string(fresh.message())),
                        "; sign in again with `comera login`"));
    }
    security.token = login.token;
  }
  return security;
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> Session::Channel() const {
  if (verbose) Note(absl::StrCat("coordinator: ", ServerAddress()));
  return OpenChannel(ServerAddress(), Security(), ClientChannelArguments());
}

TrainingClient::Options Session::ClientOptions() const {
  TrainingClient::Options options;
  options.timeout = timeout;
  options.attempt_timeout = timeout;
  return options;
}

std::unique_ptr<TrainingClient> Session::Connect() const {
  if (verbose) Note(absl::StrCat("coordinator: ", ServerAddress()));
  TrainingClient::Options options = ClientOptions();
  options.security = Security();
  return TrainingClient::Connect(ServerAddress(), options);
}

void Session::Note(const std::string& line) const {
  *env.err << ForTerminal(line) << std::endl;
}

int Session::Fail(const std::string& message, int code) const {
  *env.err << "comera: " << ForTerminal(message) << std::endl;
  return code;
}

int Session::FailRpc(const absl::Status& status) const {
  const int code = ExitCodeOfRpc(status);
  std::string message = Printable(std::string(status.message()));
  if (code == kExitUnreachable && started_coordinator) {
    message = absl::StrCat(
        "the coordinator that this command started cannot be reached: ",
        message);
  } else if (absl::StrContains(ServerAddress(), "://")) {
    message = absl::StrCat("a coordinator is HOST:PORT, not the URL ",
                           ServerAddress(), " (--server or COMERA_SERVER)");
  } else if (code == kExitUnreachable) {
    message = absl::StrCat("cannot reach the coordinator at ", ServerAddress(),
                           ": ", message, " (--server or COMERA_SERVER)");
  }
  if (verbose) {
    absl::StrAppend(&message, " [", absl::StatusCodeToString(status.code()),
                    "]");
  }
  return Fail(message, code);
}

void Session::Print(const google::protobuf::Message& message,
                    bool one_line) const {
  *env.out << (output == OutputFormat::kYaml ? ToYaml(message)
                                             : ToJson(message, one_line))
           << std::flush;
}

bool Session::Color() const {
  ColorChoice choice;
  choice.flag = color;
  choice.no_color = env.no_color;
  choice.force_color = env.force_color;
  choice.terminal = env.out_is_terminal;
  return UseColor(choice);
}

TableLayout Session::Layout() const {
  TableLayout layout;
  layout.width = env.out_is_terminal && !wide ? env.width : 0;
  layout.headers = !no_headers;
  layout.color = Color();
  return layout;
}

int Session::PrintTable(const TableRows& rows,
                        const std::vector<std::string>& dispensable) const {
  TableLayout layout = Layout();
  layout.columns = columns;
  const auto text = FormatTable(rows, layout, dispensable);
  if (!text.ok()) return Fail(std::string(text.status().message()), kExitUsage);
  *env.out << *text << std::flush;
  return kExitOk;
}

std::string Session::TableText(
    const TableRows& rows, const std::vector<std::string>& dispensable) const {
  // Only an unknown column is an error, and none is named here.
  return FormatTable(rows, Layout(), dispensable).value_or("");
}

absl::StatusOr<std::string> Session::JobNameFrom(const std::string& argument) {
  const std::string name =
      argument.rfind("jobs/", 0) == 0 ? argument : JobName(argument);
  if (!ParseJobName(name)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "`", Printable(argument), "` is no job id ([a-z0-9-], at most 63)"));
  }
  return name;
}

}  // namespace comera::client
