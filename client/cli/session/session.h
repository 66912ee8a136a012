// What every verb works with: the outside world, global flags, output.
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
#include "common/rpc_channel.h"
#include "google/protobuf/message.h"

namespace comera::client {

// The outside world as the CLI sees it.
struct Environment {
  std::ostream* out;  // results only
  std::ostream* err;  // notes and errors
  // Whether `out` can be updated in place, and its columns.
  bool out_is_terminal = false;
  bool err_is_terminal = false;
  // Whether keys can be read.
  bool in_is_terminal = false;
  int width = 80;
  int height = 24;
  // Both as they are now; null: as above.
  std::function<std::pair<int, int>()> current_size;
  // NO_COLOR, CLICOLOR_FORCE.
  bool no_color = false;
  bool force_color = false;
  // COMERA_SERVER, COMERA_TOKEN, COMERA_TOKEN_FILE, COMERA_CA, COMERA_CERT,
  // COMERA_KEY.
  std::string server;
  std::string token;
  std::string token_file;
  std::string ca;
  std::string certificate;
  std::string key;
  // Where `comera login` keeps what it was told; empty: nowhere.
  std::string config_file;
  std::string working_folder = "/";
  // Folder of the running binary, for finding the others.
  std::string binary_folder;
  // Where `run` keeps its state unless told otherwise.
  std::string state_folder;
};

enum class OutputFormat { kTable, kJson, kYaml };

// One invocation.
class Session {
 public:
  explicit Session(const Environment& environment) : env(environment) {}

  // A client of the coordinator that flags, environment or `comera login` name.
  std::unique_ptr<TrainingClient> Connect() const;
  // The same for other services. Errors of OpenChannel.
  absl::StatusOr<std::shared_ptr<grpc::Channel>> Channel() const;
  // With the global flags' deadline.
  TrainingClient::Options ClientOptions() const;
  std::string ServerAddress() const;
  // How this side shows who it is. What `comera login` stored goes to the
  // server it was stored for and to no other.
  ChannelSecurity Security() const;

  // A note for people: one line on stderr.
  void Note(const std::string& line) const;
  // An error line on stderr; returns `code`.
  int Fail(const std::string& message, int code) const;
  // For a failed RPC: its error, and the exit code that belongs to it.
  int FailRpc(const absl::Status& status) const;

  // A message as JSON (one line, or indented) or YAML on stdout.
  void Print(const google::protobuf::Message& message, bool one_line) const;

  // Whether results on stdout have colours.
  bool Color() const;
  // A table on stdout as the global flags and the terminal ask for it; returns
  // the exit code. `dispensable`: as for FormatTable.
  int PrintTable(const TableRows& rows,
                 const std::vector<std::string>& dispensable = {}) const;
  // For pages of several tables: all columns, whatever --columns says.
  TableLayout Layout() const;
  std::string TableText(const TableRows& rows,
                        const std::vector<std::string>& dispensable = {}) const;

  // `jobs/{job}` from that or the bare id. InvalidArgument.
  static absl::StatusOr<std::string> JobNameFrom(const std::string& argument);

  const Environment& env;
  // Global flags.
  std::string server;
  std::string ca;
  std::string certificate;
  std::string key;
  std::string token_file;
  bool insecure_token = false;
  std::string timeout_text;
  absl::Duration timeout = absl::Seconds(15);
  OutputFormat output = OutputFormat::kTable;
  bool verbose = false;
  // -o wide: tables are as wide as they are.
  bool wide = false;
  bool no_headers = false;
  // --color; empty: auto.
  std::string color;
  // --columns, split.
  std::vector<std::string> columns;
};

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_SESSION_SESSION_H_
