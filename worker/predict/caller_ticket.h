#ifndef COMERA_WORKER_PREDICT_CALLER_TICKET_H_
#define COMERA_WORKER_PREDICT_CALLER_TICKET_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace comera::worker {

// Judges what a caller shows. `ticket` is the ticket of the call; empty if it
// has none. `peer` is gRPC's name of the caller. Unauthenticated: the ticket is
// malformed, or the caller, on another machine and without a certificate, needs
// one.
absl::Status CheckTicket(const std::string& ticket, const std::string& peer,
                         bool has_certificate);

// Returns the ticket in an HTTP header `Authorization: Bearer TICKET`; empty
// for an empty header, and for the placeholder of a client that insists on a
// key. Unauthenticated: it holds something else, above all a token, which does
// not belong here: nobody reads it, keeps it or passes it on.
absl::StatusOr<std::string> TicketOfAuthorization(
    const std::string& authorization);

}  // namespace comera::worker

#endif  // COMERA_WORKER_PREDICT_CALLER_TICKET_H_
