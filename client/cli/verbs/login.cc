// comera login and comera whoami: store and show the user's credentials.
#include <unistd.h>

#include <filesystem>
#include <memory>

#include "absl/strings/str_cat.h"
#include "client/access_client.h"
#include "client/cli/output/text_format.h"
#include "client/cli/session/exit_codes.h"
#include "client/cli/verbs/verbs.h"
#include "common/files.h"

namespace comera::client {
namespace {

absl::StatusOr<v1::WhoAmIResponse> Ask(const Session& session) {
  const auto channel = session.Channel();
  if (!channel.ok()) return channel.status();
  return AccessClient(*channel, session.ClientOptions()).WhoAmI();
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
  const auto who = Ask(session);
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

int LogIn(const Session& session) {
  if (session.env.config_file.empty()) {
    return session.Fail("no folder for the login: HOME is not set",
                        kExitClientError);
  }
  const ChannelSecurity security = session.Security();
  Login login;
  login.server = session.ServerAddress();
  login.ca_file = Absolute(security.ca_file, session);
  login.certificate_file = Absolute(security.certificate_file, session);
  login.key_file = Absolute(security.key_file, session);
  login.insecure_token = security.insecure_token;
  login.token = security.token;
  if (login.token.empty() && !security.token_file.empty()) {
    const auto text = ReadFile(security.token_file);
    if (!text.ok()) {
      return session.Fail(std::string(text.status().message()),
                          kExitClientError);
    }
    login.token = text->substr(0, text->find_first_of(" \r\n\t"));
  }
  // Stores only credentials that work.
  const auto who = Ask(session);
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
  Verb verb = {"login",
               "Store server, token and authority for later calls",
               {},
               nullptr};
  verb.examples =
      R"(  comera login --server train.example.com:7400 --ca ca.pem --token-file alice.token)";
  verb.run = [=] { return LogIn(*session); };
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
