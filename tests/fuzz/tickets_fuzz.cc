// Fuzzes sealed texts that strangers show: a text opens if and only if it is
// what the holder of the key has made. The first byte chooses which kind it is.
#include <algorithm>
#include <optional>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "comera/v1/peer_service.pb.h"
#include "comera/v1/worker_service.pb.h"
#include "common/call_metadata.h"
#include "common/clock.h"
#include "common/seal.h"
#include "server/auth/ticket_office.h"
#include "tests/fuzz/fuzz_input.h"
#include "worker/checkpoint/peer_keys.h"
#include "worker/predict/caller_ticket.h"

namespace comera {
namespace {

using server::TicketOffice;

constexpr char kKey[] = "key";
constexpr char kPurpose[] = "use";
constexpr char kStranger[] = "ipv4:192.0.2.7:40000";

void Check(bool good, const char* what) {
  if (!good) FuzzFailure(what);
}

// Seals one part and puts the rest somewhere into the text.
void Sealed(FuzzInput input) {
  const size_t place = static_cast<size_t>(input.Choose(256));
  const std::string message = input.Part();
  const std::string rest = input.Rest();
  std::string text = Seal(kKey, kPurpose, message);
  Check(Unseal(kKey, kPurpose, text) == message, "a sealed text stays closed");
  Check(!Unseal("other", kPurpose, text) && !Unseal("", kPurpose, text) &&
            !Unseal(kKey, "other", text),
        "a sealed text opens to others");
  if (rest.empty()) return;
  text.insert(std::min(place, text.size()), rest);
  Check(!Unseal(kKey, kPurpose, text), "a changed text opens");
  Check(!Unseal(kKey, kPurpose, rest), "a forged text opens");
}

// A ticket that the office has issued, and a text that it has not.
void Tickets(FuzzInput input) {
  static const TicketOffice* const office =
      new TicketOffice(nullptr, Clock::Real());
  server::Ticket ticket;
  if (!ticket.ParseFromString(input.Part())) return;
  const std::string& worker = ticket.worker();
  const std::string text =
      office->Issue(TicketOffice::Purpose::kUse, absl::Hours(1), &ticket);
  const auto checked = office->Check(TicketOffice::Purpose::kUse, text, worker);
  Check(checked.ok() == !worker.empty(), "a ticket that is not good");
  Check(!checked.ok() ||
            checked->SerializeAsString() == ticket.SerializeAsString(),
        "a ticket that says something else");
  Check(!office->Check(TicketOffice::Purpose::kUse, text, worker + "x").ok() &&
            !office->Check(TicketOffice::Purpose::kDownload, text, worker).ok(),
        "a ticket that is good for more");
  const std::string forged = input.Rest();
  for (const std::string& one :
       {forged, absl::StrCat(kTicketPrefix, forged), text + forged}) {
    Check(one == text ||
              !office->Check(TicketOffice::Purpose::kUse, one, worker).ok(),
          "a forged ticket");
  }
}

// What the worker that is called makes of a header.
void Header(const std::string& header) {
  const auto ticket = worker::TicketOfAuthorization(header);
  if (!ticket.ok()) return;
  Check(ticket->empty() || absl::StartsWith(*ticket, kTicketPrefix),
        "a ticket that is none");
  if (!worker::CheckTicket(*ticket, kStranger, false).ok()) return;
  Check(!ticket->empty() && ticket->size() < header.size() &&
            std::all_of(ticket->begin(), ticket->end(),
                        [](char c) { return c > ' ' && c <= '~'; }),
        "a ticket that no header can hold");
}

// What one worker shows another: a message that the coordinator has sealed, and
// one that it has not.
void Grant(FuzzInput input) {
  worker::PeerKeys keys;
  v1::SynchronizeResponse answer;
  answer.set_grant_key(kKey);
  keys.Learn(answer);
  const std::string job = input.Part();
  const std::string message = input.Part();
  Check(absl::IsUnauthenticated(keys.Judge(input.Rest(), job).status()),
        "a forged grant");
  v1::PeerGrant grant;
  const bool good = grant.ParseFromString(message) && grant.job() == job;
  const std::string sealed = Seal(kKey, kPeerGrantPurpose, message);
  for (int i = 0; i < 2; ++i) {
    const auto attempt = keys.Judge(sealed, job);
    if (!good) {
      Check(absl::IsUnauthenticated(attempt.status()), "a grant for another");
    } else if (grant.attempt() < 0) {
      Check(absl::IsAborted(attempt.status()), "an attempt before all others");
    } else {
      Check(attempt.ok() && *attempt == grant.attempt(), "a refused grant");
    }
  }
}

}  // namespace
}  // namespace comera

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  comera::FuzzInput input(data, size);
  switch (input.Choose(4)) {
    case 0:
      comera::Sealed(input);
      break;
    case 1:
      comera::Tickets(input);
      break;
    case 2:
      comera::Header(input.Rest());
      break;
    default:
      comera::Grant(input);
  }
  return 0;
}
