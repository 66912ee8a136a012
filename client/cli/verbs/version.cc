// comera version: prints the versions of the client and, if named, of the
// coordinator.
#include "common/version.h"

#include <memory>

#include "client/cli/output/text_format.h"
#include "client/cli/session/exit_codes.h"
#include "client/cli/verbs/verbs.h"
#include "common/json.h"

namespace comera::client {
namespace {

int Version(const Session& session) {
  nlohmann::ordered_json versions = {{"client", kVersion}};
  if (!session.server.empty() || !session.env.server.empty()) {
    const absl::StatusOr<std::string> server =
        session.Connect()->ServerVersion();
    if (!server.ok()) return session.FailRpc(server.status());
    versions["server"] = Printable(*server);
  }
  switch (session.output) {
    case OutputFormat::kJson:
      *session.env.out << JsonText(versions) << std::endl;
      break;
    case OutputFormat::kYaml:
      for (const auto& [name, version] : versions.items()) {
        *session.env.out << name << ": " << version << std::endl;
      }
      break;
    case OutputFormat::kTable:
      *session.env.out << "comera " << kVersion << std::endl;
      if (versions.contains("server")) {
        *session.env.out << "comera-server "
                         << versions["server"].get<std::string>() << std::endl;
      }
      break;
  }
  return kExitOk;
}

}  // namespace

Verb VersionVerb(Session* session) {
  return {"version",
          "Print versions",
          {},
          [=] { return Version(*session); },
          "  comera version\n"
          "  comera version --server train.example.com:7400 -o json"};
}

}  // namespace comera::client
