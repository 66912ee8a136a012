// comera version: of the client and, if named, of the coordinator.
#include "common/version.h"

#include <memory>

#include "client/cli/exit_codes.h"
#include "client/cli/message_text.h"
#include "client/cli/verbs.h"
#include "google/protobuf/struct.pb.h"

namespace comera::client {
namespace {

int Version(const Session& session) {
  google::protobuf::Struct versions;
  (*versions.mutable_fields())["client"].set_string_value(kVersion);
  if (!session.server.empty() || !session.env.server.empty()) {
    const absl::StatusOr<std::string> server =
        session.Connect()->ServerVersion();
    if (!server.ok()) return session.FailRpc(server.status());
    (*versions.mutable_fields())["server"].set_string_value(*server);
  }
  if (session.output != OutputFormat::kTable) {
    session.Print(versions, /*one_line=*/false);
    return kExitOk;
  }
  *session.env.out << "comera " << kVersion << std::endl;
  const auto server = versions.fields().find("server");
  if (server != versions.fields().end()) {
    *session.env.out << "comera-server " << server->second.string_value()
                     << std::endl;
  }
  return kExitOk;
}

}  // namespace

Verb VersionVerb(Session* session) {
  return {"version", "Print versions", {}, [=] { return Version(*session); }};
}

}  // namespace comera::client
