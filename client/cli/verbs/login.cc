// comera login and comera whoami: store and show the user's credentials.
#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

#include <filesystem>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/access_client.h"
#include "client/cli/output/text_format.h"
#include "client/cli/session/exit_codes.h"
#include "client/cli/session/issuer_login.h"
#include "client/cli/verbs/verbs.h"
#include "common/files.h"

namespace comera::client {
namespace {

// How long one may take to sign in at an issuer.
constexpr absl::Duration kSignIn = absl::Minutes(10);

// Where and how to sign in at an issuer; no issuer: with a token.
struct IssuerFlags {
  std::string issuer;
  std::string client_id;
  bool no_browser = false;
};

absl::StatusOr<v1::WhoAmIResponse> Ask(const Session& session,
                                       const ChannelSecurity& security) {
  const auto channel =
      OpenChannel(session.ServerAddress(), security, ClientChannelArguments());
  if (!channel.ok()) return channel.status();
  return AccessClient(*channel, session.ClientOptions()).WhoAmI();
}

// Whether a program that shows URLs could be started.
bool OpenBrowser(const std::string& url) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (const int file : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    posix_spawn_file_actions_addopen(&actions, file, "/dev/null", O_RDWR, 0);
  }
  std::string program = "xdg-open";
  std::string argument = url;
  char* const argv[] = {program.data(), argument.data(), nullptr};
  pid_t pid = 0;
  const int error =
      posix_spawnp(&pid, program.c_str(), &actions, nullptr, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  return error == 0;
}

absl::Status SignIn(const Session& session, const IssuerFlags& flags,
                    Login* login) {
  const auto show = [&](const std::string& url) {
    const bool opened =
        !flags.no_browser && session.env.has_display && OpenBrowser(url);
    session.Note(absl::StrCat(opened ? "your browser opens "
                                     : "open this page in a browser on this "
                                       "machine: ",
                              url));
  };
  const auto tokens =
      SignInAtIssuer(flags.issuer, flags.client_id, show, kSignIn);
  if (!tokens.ok()) return tokens.status();
  login->token = tokens->id_token;
  login->issuer = flags.issuer;
  login->client_id = flags.client_id;
  login->refresh_token = tokens->refresh_token;
  return absl::OkStatus();
}

std::string RoleText(v1::Role role) {
  switch (role) {
    case v1::ROLE_VIEWER:
      return "viewer";
    case v1::ROLE_USER:
      return "user";
    case v1::ROLE_ADMIN:
      return "admin";
    default:
      return "none";
  }
}

void PrintWho(const v1::WhoAmIResponse& who, const Session& session) {
  if (session.output != OutputFormat::kTable) {
    return session.Print(who, /*one_line=*/false);
  }
  std::vector<std::vector<std::string>> rows = {
      {"server", session.ServerAddress()}};
  if (who.open()) {
    rows.push_back({"user", who.user().empty() ? "anybody: the server asks for "
                                                 "no token"
                                               : Printable(who.user())});
  } else {
    const v1::Token& token = who.token();
    rows.push_back({"user", Printable(who.user())});
    rows.push_back(
        {"role", token.worker() ? "worker" : RoleText(token.role())});
    const std::map<std::string, int> queues(token.queue_roles().begin(),
                                            token.queue_roles().end());
    for (const auto& [queue, role] : queues) {
      rows.push_back({absl::StrCat("queue ", Printable(queue)),
                      RoleText(static_cast<v1::Role>(role))});
    }
    rows.push_back({"token", token.name()});
  }
  *session.env.out << FormatTable(rows) << std::flush;
}

int WhoAmI(const Session& session) {
  const auto who = Ask(session, session.Security());
  if (!who.ok()) return session.FailRpc(who.status());
  PrintWho(*who, session);
  return kExitOk;
}

std::string Absolute(const std::string& path, const Session& session) {
  if (path.empty() || path[0] == '/' || path == "system") return path;
  return (std::filesystem::path(session.env.working_folder) / path)
      .lexically_normal()
      .string();
}

int LogIn(const Session& session, const IssuerFlags& flags) {
  if (flags.issuer.empty() != flags.client_id.empty()) {
    return session.Fail("--issuer and --client-id belong together", kExitUsage);
  }
  if (session.env.config_file.empty()) {
    return session.Fail("no folder for the login: HOME is not set",
                        kExitClientError);
  }
  ChannelSecurity security = session.Security(/*refresh=*/flags.issuer.empty());
  Login login;
  login.server = session.ServerAddress();
  login.ca_file = Absolute(security.ca_file, session);
  login.certificate_file = Absolute(security.certificate_file, session);
  login.key_file = Absolute(security.key_file, session);
  login.insecure_token = security.insecure_token;
  login.token = security.token;
  if (!flags.issuer.empty()) {
    const absl::Status signed_in = SignIn(session, flags, &login);
    if (!signed_in.ok()) {
      return session.Fail(
          absl::StrCat("not signed in at ", flags.issuer, ": ",
                       Printable(std::string(signed_in.message()))),
          kExitClientError);
    }
    security.token = login.token;
    security.token_file.clear();
  } else if (login.token.empty() && !security.token_file.empty()) {
    const auto text = ReadFile(security.token_file);
    if (!text.ok()) {
      return session.Fail(std::string(text.status().message()),
                          kExitClientError);
    }
    login.token = text->substr(0, text->find_first_of(" \r\n\t"));
  }
  // Also when the same token is stored anew, e.g. with another authority.
  const Login stored = ReadLogin(session.env.config_file);
  if (flags.issuer.empty() && login.token == stored.token) {
    login.issuer = stored.issuer;
    login.client_id = stored.client_id;
    login.refresh_token = stored.refresh_token;
  }
  // Stores only credentials that work.
  const auto who = Ask(session, security);
  if (!who.ok()) return session.FailRpc(who.status());
  const absl::Status written = WriteLogin(session.env.config_file, login);
  if (!written.ok()) {
    return session.Fail(std::string(written.message()), kExitClientError);
  }
  PrintWho(*who, session);
  session.Note(absl::StrCat("stored in ", session.env.config_file));
  return kExitOk;
}

}  // namespace

Verb LoginVerb(Session* session) {
  const auto flags = std::make_shared<IssuerFlags>();
  Verb verb = {
      "login",
      "Store server, token and authority for later calls",
      {{"--issuer",
        "Sign in at this issuer of OpenID Connect, a URL, instead of "
        "with a token",
        &flags->issuer,
        false,
        {},
        Names::kNothing},
       {"--client-id",
        "The client that this program is there",
        &flags->client_id,
        false,
        {},
        Names::kNothing},
       {"--no-browser", "Print the issuer's page instead of opening a browser",
        &flags->no_browser}},
      nullptr};
  verb.examples =
      R"(  comera login --server train.example.com:7400 --ca ca.pem --token-file alice.token
  comera login --server train.example.com:7400 --ca ca.pem --issuer https://id.example.com --client-id comera)";
  verb.run = [=] { return LogIn(*session, *flags); };
  return verb;
}

Verb WhoAmIVerb(Session* session) {
  Verb verb = {"whoami", "Show who the server takes you for", {}, nullptr};
  verb.examples =
      R"(  comera whoami
  comera whoami -o json)";
  verb.run = [=] { return WhoAmI(*session); };
  return verb;
}

}  // namespace comera::client
