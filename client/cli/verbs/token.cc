// comera token: creates, lists and revokes tokens.
#include <map>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "client/access_client.h"
#include "client/cli/output/long_duration.h"
#include "client/cli/output/text_format.h"
#include "client/cli/session/exit_codes.h"
#include "client/cli/verbs/verbs.h"
#include "google/protobuf/util/time_util.h"

namespace comera::client {
namespace {

struct Arguments {
  std::string action;
  std::string token;
  std::string name;
  std::string role;
  std::vector<std::string> queues;
  std::string expires;
  bool worker = false;
  std::string worker_name;
};

const std::map<std::string, v1::Role>& Roles() {
  static const auto* roles =
      new std::map<std::string, v1::Role>{{"viewer", v1::ROLE_VIEWER},
                                          {"user", v1::ROLE_USER},
                                          {"admin", v1::ROLE_ADMIN}};
  return *roles;
}

std::string RoleText(int role) {
  for (const auto& [name, value] : Roles()) {
    if (value == role) return name;
  }
  return "-";
}

// Returns, e.g., "user, fast=admin".
std::string RolesText(const v1::Token& token) {
  if (token.worker()) {
    return token.worker_name().empty()
               ? "any worker"
               : absl::StrCat("worker ", Printable(token.worker_name()));
  }
  std::vector<std::string> parts;
  if (token.role() != v1::ROLE_UNSPECIFIED) {
    parts.push_back(RoleText(token.role()));
  }
  // Sorted, unlike the message's map.
  const std::map<std::string, int> queues(token.queue_roles().begin(),
                                          token.queue_roles().end());
  for (const auto& [queue, role] : queues) {
    parts.push_back(absl::StrCat(queue, "=", RoleText(role)));
  }
  return absl::StrJoin(parts, ", ");
}

std::string TimeText(bool has, const google::protobuf::Timestamp& time) {
  return has ? google::protobuf::util::TimeUtil::ToString(time) : "-";
}

std::vector<std::string> Row(const v1::Token& token) {
  std::string expires = TimeText(token.has_expire_time(), token.expire_time());
  if (token.has_revoke_time()) expires = "revoked";
  return {LastSegment(token.name()),
          Printable(token.user()),
          RolesText(token),
          TimeText(true, token.create_time()),
          expires,
          TimeText(token.has_last_use_time(), token.last_use_time()),
          token.creator().empty() ? "-" : Printable(token.creator())};
}

int Create(const Arguments& arguments, const Session& session,
           AccessClient& client) {
  v1::CreateTokenRequest request;
  if (arguments.name.empty()) {
    return session.Fail("token create needs --name", kExitUsage);
  }
  request.set_user(arguments.name);
  request.set_worker(arguments.worker);
  request.set_worker_name(arguments.worker_name);
  if (!arguments.role.empty()) request.set_role(Roles().at(arguments.role));
  for (const std::string& text : arguments.queues) {
    const size_t equals = text.find('=');
    const auto role = equals == std::string::npos
                          ? Roles().end()
                          : Roles().find(text.substr(equals + 1));
    if (role == Roles().end()) {
      return session.Fail(
          absl::StrCat("--queue ", Printable(text),
                       " is not QUEUE=viewer, QUEUE=user or QUEUE=admin"),
          kExitUsage);
    }
    (*request.mutable_queue_roles())[text.substr(0, equals)] = role->second;
  }
  if (!arguments.expires.empty()) {
    const auto lifetime = ParseLongDuration(arguments.expires);
    if (!lifetime) {
      return session.Fail(
          absl::StrCat("--expires ", Printable(arguments.expires),
                       " is no duration, e.g. 30d or 12h"),
          kExitUsage);
    }
    request.mutable_lifetime()->set_seconds(absl::ToInt64Seconds(*lifetime));
  }
  const auto response = client.CreateToken(request);
  if (!response.ok()) return session.FailRpc(response.status());
  if (session.output == OutputFormat::kTable) {
    // Printed alone on standard output, so that it can be redirected to a file.
    *session.env.out << response->secret() << std::endl;
    session.Note(absl::StrCat(response->token().name(), " for ",
                              Printable(response->token().user()), " (",
                              RolesText(response->token()),
                              "); this is the only time that it is shown"));
  } else {
    session.Print(*response, /*one_line=*/false);
  }
  return kExitOk;
}

int List(const Session& session, AccessClient& client) {
  const auto tokens = client.ListTokens();
  if (!tokens.ok()) return session.FailRpc(tokens.status());
  if (session.output != OutputFormat::kTable) {
    v1::ListTokensResponse response;
    for (const v1::Token& token : *tokens) *response.add_tokens() = token;
    session.Print(response, /*one_line=*/false);
    return kExitOk;
  }
  std::vector<std::vector<std::string>> rows = {
      {"ID", "NAME", "ROLES", "CREATED", "EXPIRES", "LAST USED", "CREATOR"}};
  for (const v1::Token& token : *tokens) rows.push_back(Row(token));
  return session.PrintTable(rows, {"CREATOR", "LAST USED", "CREATED"});
}

int Revoke(const Arguments& arguments, const Session& session,
           AccessClient& client) {
  if (arguments.token.empty()) {
    return session.Fail("token revoke needs the token's id, see token list",
                        kExitUsage);
  }
  if (arguments.token.rfind("comera_", 0) == 0) {
    return session.Fail(
        "give the token's id (see token list), not the token itself: command "
        "lines can be seen by others",
        kExitUsage);
  }
  const auto token =
      client.RevokeToken(absl::StrCat("tokens/", LastSegment(arguments.token)));
  if (!token.ok()) return session.FailRpc(token.status());
  if (session.output == OutputFormat::kTable) {
    *session.env.out << token->name() << " revoked" << std::endl;
  } else {
    session.Print(*token, /*one_line=*/false);
  }
  return kExitOk;
}

int Token(const Arguments& arguments, const Session& session) {
  const auto channel = session.Channel();
  if (!channel.ok()) return session.FailRpc(channel.status());
  AccessClient client(*channel, session.ClientOptions());
  if (arguments.action == "create") return Create(arguments, session, client);
  if (arguments.action == "list") return List(session, client);
  return Revoke(arguments, session, client);
}

}  // namespace

Verb TokenVerb(Session* session) {
  auto arguments = std::make_shared<Arguments>();
  Verb verb = {"token", "Make, list and revoke tokens (admins)", {}, nullptr};
  verb.arguments = {
      {"action",
       "create, list or revoke",
       &arguments->action,
       true,
       {"create", "list", "revoke"}},
      {"token", "revoke: the token's id", &arguments->token, false, {}},
      {"--name", "create: whose it is", &arguments->name, false, {}},
      {"--role",
       "create: on the whole server",
       &arguments->role,
       false,
       {"viewer", "user", "admin"}},
      {"--queue",
       "create: QUEUE=ROLE, in one queue; repeatable",
       &arguments->queues,
       false,
       {}},
      {"--worker",
       "create: for the worker of that name to join",
       &arguments->worker,
       false,
       {}},
      {"--worker-name",
       "create: with --worker, the worker that may use it, if not --name; with "
       "a * at the end, all whose names begin so",
       &arguments->worker_name,
       false,
       {}},
      {"--expires",
       "create: after this long, e.g. 30d (never)",
       &arguments->expires,
       false,
       {}},
  };
  verb.examples =
      R"(  comera token create --name alice --role user --expires 30d > alice.token
  comera token create --name node-17 --worker > worker.token
  comera token create --name rack1 --worker --worker-name 'rack1-*' > rack1.token
  comera token list
  comera token revoke 7c3e9a)";
  verb.run = [=] { return Token(*arguments, *session); };
  return verb;
}

}  // namespace comera::client
