// Writes and signs the messages of webhooks.
#include "server/webhook/state_note.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "common/json.h"
#include "nlohmann/json.hpp"
#include "server/rpc/proto_time.h"

namespace comera::server {

std::string NoteId(const v1::JobEvent& event) {
  return absl::StrFormat("%s/%012d", event.job(), event.sequence());
}

absl::Time TimeOfNote(const StateNote& note) {
  const nlohmann::json message = ParseJson(note.body);
  absl::Time time;
  if (!message.is_object() || !message.contains("timestamp") ||
      !message["timestamp"].is_string() ||
      !absl::ParseTime(absl::RFC3339_full,
                       message["timestamp"].get<std::string>(), &time,
                       nullptr)) {
    return absl::InfinitePast();
  }
  return time;
}

std::string UserOfNote(const StateNote& note) {
  const nlohmann::json message = ParseJson(note.body);
  const auto user = nlohmann::json::json_pointer("/data/user");
  if (!message.contains(user) || !message[user].is_string()) return "";
  return message[user].get<std::string>();
}

StateNote MakeNote(const v1::JobEvent& event, const v1::Job& job) {
  const v1::StateChange& change = event.state_change();
  // In the spelling of the HTTP API.
  nlohmann::ordered_json data = {{"job", event.job()},
                                 {"displayName", job.spec().display_name()},
                                 {"user", job.user()},
                                 {"queue", job.spec().queue()},
                                 {"attempt", event.attempt()},
                                 {"sequence", event.sequence()},
                                 {"state", v1::JobState_Name(change.state())},
                                 {"reason", change.reason()}};
  if (!job.sweep().empty()) data["sweep"] = job.sweep();
  if (change.outcome() != v1::OUTCOME_UNSPECIFIED) {
    data["outcome"] = v1::Outcome_Name(change.outcome());
  }
  if (change.has_failure()) {
    data["failure"] = {{"failureClass", v1::FailureClass_Name(
                                            change.failure().failure_class())},
                       {"message", change.failure().message()}};
  }
  const nlohmann::ordered_json message = {
      {"type", "job.state_changed"},
      {"timestamp",
       absl::FormatTime(absl::RFC3339_full, FromTimestamp(event.time()),
                        absl::UTCTimeZone())},
      {"data", data}};
  return {NoteId(event), JsonText(message), job.user()};
}

std::string SignNote(const std::string& key, const StateNote& note,
                     int64_t seconds) {
  const std::string text = absl::StrCat(note.id, ".", seconds, ".", note.body);
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest,
       &size);
  return absl::StrCat("v1,", absl::Base64Escape(absl::string_view(
                                 reinterpret_cast<const char*>(digest), size)));
}

}  // namespace comera::server
