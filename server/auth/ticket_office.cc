// Seals tickets, and checks them against the tokens that they were made with.
#include "server/auth/ticket_office.h"

#include <openssl/rand.h>

#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/call_metadata.h"
#include "common/log.h"
#include "common/seal.h"
#include "common/status_macros.h"
#include "server/auth/token_roles.h"

namespace comera::server {
namespace {

constexpr size_t kKeyBytes = 32;

std::string NewKey() {
  std::string key(kKeyBytes, '\0');
  CHECK(RAND_bytes(reinterpret_cast<unsigned char*>(key.data()),
                   static_cast<int>(key.size())) == 1)
      << "the system gives no random numbers";
  return key;
}

const char* NameOf(TicketOffice::Purpose purpose) {
  return purpose == TicketOffice::Purpose::kUse ? "use" : "download";
}

// One message for all, so that nobody learns what is wrong with a forged one.
absl::Status Bad() {
  return absl::UnauthenticatedError(
      "the ticket is not valid here, or no longer: ask the coordinator for "
      "another");
}

}  // namespace

TicketOffice::TicketOffice(TokenStore* tokens, Clock* clock)
    : tokens_(tokens), clock_(clock), key_(NewKey()) {}

std::string TicketOffice::Issue(Purpose purpose, absl::Duration lifetime,
                                Ticket* ticket) const {
  ticket->set_expire_unix_millis(absl::ToUnixMillis(clock_->Now() + lifetime));
  return absl::StrCat(kTicketPrefix,
                      Seal(key_, NameOf(purpose), ticket->SerializeAsString()));
}

absl::StatusOr<Ticket> TicketOffice::Check(Purpose purpose,
                                           const std::string& text,
                                           const std::string& worker) const {
  absl::string_view sealed = text;
  if (!absl::ConsumePrefix(&sealed, kTicketPrefix)) return Bad();
  const std::optional<std::string> message =
      Unseal(key_, NameOf(purpose), sealed);
  Ticket ticket;
  if (!message || !ticket.ParseFromString(*message)) return Bad();
  if (worker.empty() || ticket.worker() != worker ||
      absl::ToUnixMillis(clock_->Now()) >= ticket.expire_unix_millis()) {
    return Bad();
  }
  if (tokens_ != nullptr && tokens_->required() &&
      !tokens_->FindWorking(ticket.token()).ok()) {
    return Bad();
  }
  return ticket;
}

absl::Status TicketOffice::CheckQueue(const Ticket& ticket,
                                      const std::string& queue) const {
  if (tokens_ == nullptr || !tokens_->required()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::shared_ptr<const v1::Token> token,
                   tokens_->FindWorking(ticket.token()));
  return CheckToken(*token, Permission::kView, queue);
}

}  // namespace comera::server
