// comera: the command-line client.

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "client/cli/main/cli.h"

namespace {

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// The folder ${XDG_STATE_HOME:-~/.local/state}/comera.
std::string StateFolder() {
  const std::string state = Variable("XDG_STATE_HOME");
  if (!state.empty() && state[0] == '/') return state + "/comera";
  const std::string home = Variable("HOME");
  return (home.empty() ? "/tmp" : home) + "/.local/state/comera";
}

// The file ${XDG_CONFIG_HOME:-~/.config}/comera/login.json.
std::string ConfigFile() {
  const std::string config = Variable("XDG_CONFIG_HOME");
  if (!config.empty() && config[0] == '/') return config + "/comera/login.json";
  const std::string home = Variable("HOME");
  return home.empty() ? "" : home + "/.config/comera/login.json";
}

// The header by which MLflow's own client would say who it is.
std::string MlflowAuthorization() {
  const std::string token = Variable("MLFLOW_TRACKING_TOKEN");
  const std::string user = Variable("MLFLOW_TRACKING_USERNAME");
  if (!user.empty()) {
    return "Basic " + absl::Base64Escape(user + ":" +
                                         Variable("MLFLOW_TRACKING_PASSWORD"));
  }
  return token.empty() ? "" : "Bearer " + token;
}

// The terminal's columns and lines.
std::pair<int, int> TerminalSize() {
  winsize size = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) {
    return {80, 24};
  }
  return {size.ws_col, size.ws_row > 0 ? size.ws_row : 24};
}

}  // namespace

int main(int argc, char** argv) {
  comera::client::Environment environment;
  environment.out = &std::cout;
  environment.err = &std::cerr;
  environment.out_is_terminal =
      isatty(STDOUT_FILENO) && Variable("TERM") != "dumb";
  environment.err_is_terminal =
      isatty(STDERR_FILENO) && Variable("TERM") != "dumb";
  std::tie(environment.width, environment.height) = TerminalSize();
  environment.current_size = TerminalSize;
  environment.in_is_terminal = isatty(STDIN_FILENO);
  environment.no_color = !Variable("NO_COLOR").empty();
  const std::string force_color = Variable("CLICOLOR_FORCE");
  environment.force_color = !force_color.empty() && force_color != "0";
  environment.server = Variable("COMERA_SERVER");
  environment.token = Variable("COMERA_TOKEN");
  environment.token_file = Variable("COMERA_TOKEN_FILE");
  environment.ca = Variable("COMERA_CA");
  environment.certificate = Variable("COMERA_CERT");
  environment.key = Variable("COMERA_KEY");
  environment.s3_key = {Variable("AWS_ACCESS_KEY_ID"),
                        Variable("AWS_SECRET_ACCESS_KEY"),
                        Variable("AWS_SESSION_TOKEN")};
  environment.mlflow_authorization = MlflowAuthorization();
  environment.has_display =
      !Variable("DISPLAY").empty() || !Variable("WAYLAND_DISPLAY").empty();
  environment.config_file = ConfigFile();
  environment.state_folder = StateFolder();
  std::error_code error;
  environment.working_folder = std::filesystem::current_path(error).string();
  environment.binary_folder =
      std::filesystem::read_symlink("/proc/self/exe", error)
          .parent_path()
          .string();
  return comera::client::RunCli(std::vector<std::string>(argv + 1, argv + argc),
                                environment);
}
