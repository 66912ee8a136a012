// What all verbs work with: the environment, global flags, output.
#ifndef COMERA_CLIENT_CLI_SESSION_SESSION_H_
#define COMERA_CLIENT_CLI_SESSION_SESSION_H_

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cli/output/table.h"
#include "client/cli/session/login_file.h"
#include "client/training_client.h"
#include "common/object_store/s3_credentials.h"
#include "common/rpc_channel.h"
#include "google/protobuf/message.h"

namespace comera::client {

// The world around the CLI, which tests replace.
struct Environment {
  std::ostream* out;  // results only
  std::ostream* err;  // notes and errors
  // Whether `out` can be updated in place.
  bool out_is_terminal = false;
  bool err_is_terminal = false;
  // Whether keys can be read.
  bool in_is_terminal = false;
  int width = 80;
  int height = 24;
  // Returns the current width and height; null if they never change.
  std::function<std::pair<int, int>()> current_size;
  // From NO_COLOR and CLICOLOR_FORCE.
  bool no_color = false;
  bool force_color = false;
  // From COMERA_SERVER, COMERA_TOKEN, COMERA_TOKEN_FILE, COMERA_CA,
  // COMERA_CERT, COMERA_KEY.
  std::string server;
  std::string token;
  std::string token_file;
  std::string ca;
  std::string certificate;
  std::string key;
  // From AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN.
  S3Credentials s3_key;
  // The header Authorization for an MLflow server: from MLFLOW_TRACKING_TOKEN,
  // or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD.
  std::string mlflow_authorization;
  // Whether a browser could show itself.
  bool has_display = false;
  // The file in which `comera login` stores its settings; empty for none.
  std::string config_file;
  std::string working_folder = "/";
  // The folder of the running binary, to find the others.
  std::string binary_folder;
  // The folder in which `run` keeps its state by default.
  std::string state_folder;
};

enum class OutputFormat { kTable, kJson, kYaml };

// One invocation of the CLI.
class Session {
 public:
  explicit Session(const Environment& environment) : env(environment) {}

  // Makes a client of the coordinator that flags, environment or `comera login`
  // name.
  std::unique_ptr<TrainingClient> Connect() const;
  // Opens a channel to that coordinator for other services. Errors of
  // OpenChannel.
  absl::StatusOr<std::shared_ptr<grpc::Channel>> Channel() const;
  // Client options with the deadline of the global flags.
  TrainingClient::Options ClientOptions() const;
  std::string ServerAddress() const;
  // How this side proves who it is. Credentials that `comera login` stored go
  // only to the server they were stored for; a token of single sign-on that is
  // about to end is replaced first if `refresh` is set, which may take some
  // seconds.
  ChannelSecurity Security(bool refresh = true) const;

  // Prints a note as one line on stderr; nothing in it can command a terminal.
  void Note(const std::string& line) const;
  // Prints an error line in the same way and returns `code`.
  int Fail(const std::string& message, int code) const;
  // Prints the error of a failed RPC and returns the exit code for it.
  int FailRpc(const absl::Status& status) const;

  // Prints a message on stdout as JSON (one line, or indented) or YAML.
  void Print(const google::protobuf::Message& message, bool one_line) const;

  // Whether results on stdout are coloured.
  bool Color() const;
  // Prints a table on stdout as the global flags and the terminal require and
  // returns the exit code. `dispensable` is that of FormatTable.
  int PrintTable(const TableRows& rows,
                 const std::vector<std::string>& dispensable = {}) const;
  // The layout for pages of several tables, which ignore --columns.
  TableLayout Layout() const;
  std::string TableText(const TableRows& rows,
                        const std::vector<std::string>& dispensable = {}) const;

  // Returns `jobs/{job}` for such a name or a bare id. InvalidArgument.
  static absl::StatusOr<std::string> JobNameFrom(const std::string& argument);

  const Environment& env;
  // The values of global flags.
  std::string server;
  // Whether this command started the coordinator that it talks to.
  bool started_coordinator = false;
  std::string ca;
  std::string certificate;
  std::string key;
  std::string token_file;
  bool insecure_token = false;
  std::string timeout_text;
  absl::Duration timeout = absl::Seconds(15);
  OutputFormat output = OutputFormat::kTable;
  bool verbose = false;
  // Whether -o wide was given: tables are as wide as their cells.
  bool wide = false;
  bool no_headers = false;
  // The value of --color; empty means auto.
  std::string color;
  // The parts of --columns.
  std::vector<std::string> columns;
};

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_SESSION_SESSION_H_
