// comera audit: lists who did what.
#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
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
  std::string since;
  std::string user;
  std::string resource;
  int64_t limit = 100;
};

// Parses a time (RFC 3339) or a duration before now.
bool ParseSince(const std::string& text, google::protobuf::Timestamp* time) {
  if (const auto ago = ParseLongDuration(text)) {
    const absl::Time then = absl::Now() - *ago;
    time->set_seconds(absl::ToUnixSeconds(then));
    return true;
  }
  return google::protobuf::util::TimeUtil::FromString(text, time);
}

int Audit(const Arguments& arguments, const Session& session) {
  v1::ListAuditEntriesRequest request;
  if (!arguments.since.empty() &&
      !ParseSince(arguments.since, request.mutable_since())) {
    return session.Fail(
        absl::StrCat("--since ", Printable(arguments.since),
                     " is neither a time such as 2026-01-31T12:00:00Z nor a "
                     "duration such as 12h or 7d"),
        kExitUsage);
  }
  if (arguments.limit < 0) {
    return session.Fail("--limit must not be negative", kExitUsage);
  }
  request.set_user(arguments.user);
  request.set_resource(arguments.resource);
  const auto channel = session.Channel();
  if (!channel.ok()) return session.FailRpc(channel.status());
  const auto entries = AccessClient(*channel, session.ClientOptions())
                           .ListAuditEntries(request, arguments.limit);
  if (!entries.ok()) return session.FailRpc(entries.status());
  if (session.output != OutputFormat::kTable) {
    v1::ListAuditEntriesResponse response;
    for (const v1::AuditEntry& entry : *entries) {
      *response.add_entries() = entry;
    }
    session.Print(response, /*one_line=*/false);
    return kExitOk;
  }
  std::vector<std::vector<std::string>> rows = {
      {"TIME", "USER", "METHOD", "RESOURCE", "RESULT", "PEER", "MESSAGE"}};
  for (const v1::AuditEntry& entry : *entries) {
    const auto or_dash = [](const std::string& text) {
      return text.empty() ? "-" : Printable(text);
    };
    rows.push_back({google::protobuf::util::TimeUtil::ToString(entry.time()),
                    or_dash(entry.user()), or_dash(entry.method()),
                    or_dash(entry.resource()), or_dash(entry.result()),
                    or_dash(entry.peer()),
                    entry.suppressed() > 0
                        ? absl::StrCat(Printable(entry.message()), " (",
                                       entry.suppressed(),
                                       " refused calls before it left out)")
                        : or_dash(entry.message())});
  }
  return session.PrintTable(rows, {"PEER", "RESULT"});
}

}  // namespace

Verb AuditVerb(Session* session) {
  auto arguments = std::make_shared<Arguments>();
  Verb verb = {
      "audit", "Show who changed what, newest first (admins)", {}, nullptr};
  verb.arguments = {
      {"--since",
       "From this time on, or how long ago, e.g. 12h or 7d",
       &arguments->since,
       false,
       {}},
      {"--user", "Only this user's", &arguments->user, false, {}},
      {"--resource",
       "Only about this, or below it, e.g. jobs/abc",
       &arguments->resource,
       false,
       {}},
      {"--limit",
       "At most so many (100; 0: all)",
       &arguments->limit,
       false,
       {}},
  };
  verb.examples =
      R"(  comera audit --since 7d --user alice
  comera audit --resource jobs/4f2x7k3m5q6a -o json)";
  verb.run = [=] { return Audit(*arguments, *session); };
  return verb;
}

}  // namespace comera::client
