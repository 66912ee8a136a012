// Checks which callers need a ticket, and that tokens are taken for none.

#include "worker/predict/caller_ticket.h"

#include <string>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace comera::worker {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kUnknown[] = "ipv4:10.0.0.1:5";

TEST(CallerTicketTest, WithoutATicketOnlyThisMachineAndCertificates) {
  for (const char* peer : {"ipv4:127.0.0.1:5", "ipv4:127.9.9.9:5",
                           "ipv6:[::1]:5", "ipv6:%5B::1%5D:5", "unix:/x"}) {
    EXPECT_OK(CheckTicket("", peer, false)) << peer;
  }
  for (const char* peer : {"ipv4:10.0.0.1:5", "ipv4:128.0.0.1:5",
                           "ipv6:[fe80::1]:5", "ipv6:[::10]:5", ""}) {
    EXPECT_THAT(CheckTicket("", peer, false),
                StatusIs(absl::StatusCode::kUnauthenticated))
        << peer;
    EXPECT_OK(CheckTicket("", peer, true));
  }
}

TEST(CallerTicketTest, TicketsAreTakenFromAnywhereAndChecked) {
  EXPECT_OK(CheckTicket("comera-ticket_abc.1", kUnknown, false));
  for (const std::string& text :
       {std::string("x"), std::string("comera-ticket_a b"),
        std::string("comera-ticket_a\n"),
        "comera-ticket_" + std::string(5000, 'x')}) {
    EXPECT_THAT(CheckTicket(text, "ipv4:127.0.0.1:5", true),
                StatusIs(absl::StatusCode::kUnauthenticated))
        << text;
  }
}

TEST(CallerTicketTest, AHeaderHoldsATicketAndNeverAToken) {
  ASSERT_OK_AND_ASSIGN(const std::string ticket,
                       TicketOfAuthorization("Bearer comera-ticket_a.b"));
  EXPECT_EQ(ticket, "comera-ticket_a.b");
  ASSERT_OK_AND_ASSIGN(const std::string none, TicketOfAuthorization(""));
  EXPECT_EQ(none, "");
  // The placeholder of a client that insists on a key.
  ASSERT_OK_AND_ASSIGN(const std::string any,
                       TicketOfAuthorization("Bearer none"));
  EXPECT_EQ(any, "");
  for (const char* text :
       {"Bearer comera_abcdefghijkl_00ff", "Bearer ", "bearer comera-ticket_a",
        "comera-ticket_a", "Basic x"}) {
    const absl::Status status = TicketOfAuthorization(text).status();
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnauthenticated)) << text;
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("00ff")));
  }
}

}  // namespace
}  // namespace comera::worker
