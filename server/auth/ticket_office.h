#ifndef COMERA_SERVER_AUTH_TICKET_OFFICE_H_
#define COMERA_SERVER_AUTH_TICKET_OFFICE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "server/auth/ticket.pb.h"
#include "server/auth/token_store.h"

namespace comera::server {

// Makes and checks tickets, with which a user of this server uses one model at
// one worker without showing that worker a token.
//
// A ticket is a sealed message (common/seal.h). Its key is this object's own
// and is kept nowhere, so tickets end with it. A ticket also ends with the
// token that it was made with. Thread-safe.
class TicketOffice {
 public:
  // What tickets are for; one for one purpose is none for the other.
  enum class Purpose {
    // A caller shows it to the worker.
    kUse,
    // The worker shows it to download the model's files.
    kDownload,
  };

  // Without `tokens`, the server asks for none. Both must outlive this.
  TicketOffice(TokenStore* tokens, Clock* clock);

  // Fills in the time at which the ticket expires, and returns its text.
  std::string Issue(Purpose purpose, absl::Duration lifetime,
                    Ticket* ticket) const;

  // Unauthenticated: not one of this office's, not for this worker, expired, or
  // its token works no longer. PermissionDenied: its user may not read `queue`,
  // to be asked with CheckQueue.
  absl::StatusOr<Ticket> Check(Purpose purpose, const std::string& text,
                               const std::string& worker) const;
  // PermissionDenied: the user of a good ticket may not read the queue now.
  absl::Status CheckQueue(const Ticket& ticket, const std::string& queue) const;

 private:
  TokenStore* const tokens_;
  Clock* const clock_;
  const std::string key_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_AUTH_TICKET_OFFICE_H_
