// Tests creation, revocation and expiry of tokens, and the tickets made with
// them.
#include "server/auth/token_store.h"

#include <deque>

#include "absl/strings/escaping.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "server/auth/ticket_office.h"
#include "server/auth/token_roles.h"
#include "server/store/job_store.h"

namespace comera::server {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class StillClock : public Clock {
 public:
  absl::Time Now() override { return now; }
  absl::Time now = absl::FromUnixSeconds(1800000000);
};

class TokenStoreTest : public ::testing::Test {
 protected:
  TokenStoreTest() { Load({}); }

  void Load(const std::vector<Document>& documents) {
    auto store =
        TokenStore::Load(documents, &clock_,
                         [this](StoreBatch batch, TokenStore::WriteDone done) {
                           for (const Document& document : batch.documents) {
                             stored_[document.name] = document;
                           }
                           done(write_status_);
                         });
    ASSERT_OK(store);
    store_ = *std::move(store);
  }

  std::vector<Document> Stored() const {
    std::vector<Document> documents;
    for (const auto& [name, document] : stored_) documents.push_back(document);
    return documents;
  }

  absl::StatusOr<v1::CreateTokenResponse> Create(
      const std::string& user, v1::Role role,
      absl::Duration lifetime = absl::ZeroDuration()) {
    v1::CreateTokenRequest request;
    request.set_user(user);
    request.set_role(role);
    if (lifetime != absl::ZeroDuration()) {
      request.mutable_lifetime()->set_seconds(absl::ToInt64Seconds(lifetime));
    }
    return Create(request);
  }

  absl::StatusOr<v1::CreateTokenResponse> Create(
      const v1::CreateTokenRequest& request) {
    absl::StatusOr<v1::CreateTokenResponse> result;
    store_->Create(request, "root",
                   [&](absl::StatusOr<v1::CreateTokenResponse> response) {
                     result = std::move(response);
                   });
    return result;
  }

  absl::StatusOr<v1::Token> Revoke(const std::string& name) {
    absl::StatusOr<v1::Token> result;
    store_->Revoke(name, [&](absl::StatusOr<v1::Token> token) {
      result = std::move(token);
    });
    return result;
  }

  StillClock clock_;
  std::map<std::string, Document> stored_;
  absl::Status write_status_;
  std::unique_ptr<TokenStore> store_;
};

TEST_F(TokenStoreTest, SecretIsShownOnceAndKeptAsHash) {
  EXPECT_FALSE(store_->required());
  ASSERT_OK_AND_ASSIGN(const auto made, Create("root", v1::ROLE_ADMIN));
  EXPECT_TRUE(store_->required());
  EXPECT_THAT(made.secret(),
              ::testing::MatchesRegex("comera_[a-z2-7]{12}_[0-9a-f]{64}"));
  ASSERT_OK_AND_ASSIGN(const auto token, store_->Verify(made.secret()));
  EXPECT_EQ(token->user(), "root");
  EXPECT_EQ(token->name(), made.token().name());
  const std::string digits = made.secret().substr(made.secret().size() - 64);
  ASSERT_THAT(stored_, SizeIs(1));
  const std::string body = *Stored()[0].body;
  EXPECT_THAT(body, Not(HasSubstr(digits)));
  EXPECT_EQ(body.find(absl::HexStringToBytes(digits)), std::string::npos);
  EXPECT_THAT(store_->List()[0].ShortDebugString(), Not(HasSubstr(digits)));

  // No two are alike.
  ASSERT_OK_AND_ASSIGN(const auto other, Create("root", v1::ROLE_ADMIN));
  EXPECT_NE(other.secret(), made.secret());
  EXPECT_NE(other.token().name(), made.token().name());
}

TEST_F(TokenStoreTest, EveryOtherSecretIsRefused) {
  ASSERT_OK_AND_ASSIGN(const auto made, Create("root", v1::ROLE_ADMIN));
  const std::string good = made.secret();
  std::vector<std::string> bad = {"",
                                  "x",
                                  good + "0",
                                  good.substr(1),
                                  std::string(1000000, 'a'),
                                  std::string(good.size(), '\0')};
  // Each character matters.
  for (size_t i = 0; i < good.size(); ++i) {
    bad.push_back(good);
    bad.back()[i] = good[i] == '0' ? '1' : '0';
  }
  bad.push_back(good);
  bad.back().back() = 'G';
  for (const std::string& secret : bad) {
    EXPECT_THAT(
        store_->Verify(secret),
        StatusIs(absl::StatusCode::kUnauthenticated, Not(HasSubstr(good))))
        << secret.substr(0, 100);
  }
  EXPECT_OK(store_->Verify(good));
}

TEST_F(TokenStoreTest, FirstTokenMustBeAnAdmins) {
  EXPECT_THAT(Create("alice", v1::ROLE_USER),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("first")));
  v1::CreateTokenRequest worker;
  worker.set_user("w");
  worker.set_worker(true);
  EXPECT_THAT(Create(worker), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_FALSE(store_->required());
  EXPECT_FALSE(store_->HasAdmin());
  EXPECT_OK(Create("root", v1::ROLE_ADMIN));
  EXPECT_TRUE(store_->HasAdmin());
  EXPECT_OK(Create("alice", v1::ROLE_USER));
  EXPECT_OK(Create(worker));
}

TEST_F(TokenStoreTest, ExpiresAndIsRevoked) {
  ASSERT_OK(Create("root", v1::ROLE_ADMIN));
  ASSERT_OK_AND_ASSIGN(const auto brief,
                       Create("alice", v1::ROLE_USER, absl::Hours(1)));
  clock_.now += absl::Minutes(59);
  EXPECT_OK(store_->Verify(brief.secret()));
  clock_.now += absl::Minutes(1);
  EXPECT_THAT(store_->Verify(brief.secret()),
              StatusIs(absl::StatusCode::kUnauthenticated));

  ASSERT_OK_AND_ASSIGN(const auto other, Create("bob", v1::ROLE_VIEWER));
  EXPECT_OK(store_->Verify(other.secret()));
  ASSERT_OK_AND_ASSIGN(const auto revoked, Revoke(other.token().name()));
  EXPECT_TRUE(revoked.has_revoke_time());
  EXPECT_THAT(store_->Verify(other.secret()),
              StatusIs(absl::StatusCode::kUnauthenticated));
  EXPECT_OK(Revoke(other.token().name()));
  EXPECT_THAT(Revoke("tokens/aaaaaaaaaaaa"),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(Revoke(""), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(TokenStoreTest, LastAdminStays) {
  ASSERT_OK_AND_ASSIGN(const auto first, Create("root", v1::ROLE_ADMIN));
  // One that expired does not count.
  ASSERT_OK(Create("old", v1::ROLE_ADMIN, absl::Hours(1)));
  clock_.now += absl::Hours(2);
  EXPECT_THAT(Revoke(first.token().name()),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_OK(store_->Verify(first.secret()));
  ASSERT_OK(Create("root2", v1::ROLE_ADMIN));
  EXPECT_OK(Revoke(first.token().name()));
  EXPECT_TRUE(store_->HasAdmin());
}

TEST_F(TokenStoreTest, OutlivesARestart) {
  ASSERT_OK_AND_ASSIGN(const auto root, Create("root", v1::ROLE_ADMIN));
  ASSERT_OK_AND_ASSIGN(const auto alice, Create("alice", v1::ROLE_USER));
  EXPECT_OK(store_->Verify(alice.secret()));
  ASSERT_OK(Revoke(alice.token().name()));
  Load(Stored());
  EXPECT_TRUE(store_->required());
  EXPECT_OK(store_->Verify(root.secret()));
  EXPECT_THAT(store_->Verify(alice.secret()),
              StatusIs(absl::StatusCode::kUnauthenticated));
  const auto tokens = store_->List();
  ASSERT_THAT(tokens, SizeIs(2));
  for (const v1::Token& token : tokens) {
    EXPECT_EQ(token.creator(), "root");
    EXPECT_TRUE(token.has_last_use_time()) << token.ShortDebugString();
  }
  stored_.begin()->second.body = "\xff\xff garbage";
  EXPECT_THAT(TokenStore::Load(Stored(), &clock_, nullptr),
              StatusIs(absl::StatusCode::kDataLoss));
}

TEST_F(TokenStoreTest, LastUseIsWrittenOnceAMinute) {
  ASSERT_OK_AND_ASSIGN(const auto root, Create("root", v1::ROLE_ADMIN));
  EXPECT_FALSE(store_->List()[0].has_last_use_time());
  stored_.clear();
  for (int i = 0; i < 100; ++i) EXPECT_OK(store_->Verify(root.secret()));
  EXPECT_THAT(stored_, SizeIs(1));
  stored_.clear();
  EXPECT_OK(store_->Verify(root.secret()));
  EXPECT_THAT(stored_, IsEmpty());
  clock_.now += absl::Minutes(1);
  EXPECT_OK(store_->Verify(root.secret()));
  EXPECT_THAT(stored_, SizeIs(1));
}

TEST_F(TokenStoreTest, BadRequestsNameTheField) {
  ASSERT_OK(Create("root", v1::ROLE_ADMIN));
  const auto expect = [&](const v1::CreateTokenRequest& request,
                          const std::string& field) {
    EXPECT_THAT(Create(request), StatusIs(absl::StatusCode::kInvalidArgument,
                                          ::testing::StartsWith(field + ": ")));
  };
  v1::CreateTokenRequest good;
  good.set_user("alice");
  good.set_role(v1::ROLE_USER);
  for (const std::string& user :
       {std::string(), std::string("a b"), std::string("A"),
        std::string("a\0b", 3), std::string(65, 'a'),
        std::string("\xc3\xa4")}) {
    v1::CreateTokenRequest request = good;
    request.set_user(user);
    expect(request, "user");
  }
  v1::CreateTokenRequest request = good;
  request.clear_role();
  expect(request, "role");
  request.set_role(static_cast<v1::Role>(77));
  expect(request, "role");
  request = good;
  request.set_worker(true);
  expect(request, "role");
  request = good;
  (*request.mutable_queue_roles())["../x"] = v1::ROLE_USER;
  expect(request, "queue_roles");
  request = good;
  (*request.mutable_queue_roles())["fast"] = v1::ROLE_UNSPECIFIED;
  expect(request, "queue_roles");
  for (int64_t seconds : {int64_t{0}, int64_t{-5}, int64_t{1} << 60}) {
    request = good;
    request.mutable_lifetime()->set_seconds(seconds);
    expect(request, "lifetime");
  }
}

TEST_F(TokenStoreTest, WhatCannotBeKeptIsNotMade) {
  v1::CreateTokenRequest request;
  request.set_user("root");
  request.set_role(v1::ROLE_ADMIN);
  absl::Status result;
  store_->Create(
      request, "",
      [&](const absl::StatusOr<v1::CreateTokenResponse>& response) {
        result = response.status();
      },
      [](const std::string&) { return absl::PermissionDeniedError("no"); });
  EXPECT_TRUE(absl::IsPermissionDenied(result));
  EXPECT_FALSE(store_->required());
  EXPECT_THAT(stored_, IsEmpty());
  write_status_ = absl::ResourceExhaustedError("disk full");
  EXPECT_THAT(Create(request), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_FALSE(store_->required());
}

// The attack: the token of one worker, used by another machine.
TEST_F(TokenStoreTest, AWorkersTokenBelongsToOneWorker) {
  ASSERT_OK(Create("root", v1::ROLE_ADMIN));
  v1::CreateTokenRequest request;
  request.set_user("gpu-1");
  request.set_worker(true);
  ASSERT_OK_AND_ASSIGN(const auto made, Create(request));
  EXPECT_TRUE(IsTokenOfWorker(made.token(), "gpu-1"));
  for (const char* other : {"gpu-2", "gpu-11", "gpu", ""}) {
    EXPECT_FALSE(IsTokenOfWorker(made.token(), other)) << other;
  }
  request.set_worker_name("rack1-*");
  ASSERT_OK_AND_ASSIGN(const auto group, Create(request));
  EXPECT_TRUE(IsTokenOfWorker(group.token(), "rack1-7"));
  EXPECT_FALSE(IsTokenOfWorker(group.token(), "rack2-7"));
  // One of an earlier version, as it was stored.
  EXPECT_FALSE(IsTokenOfWorker(v1::Token(), "anything"));

  for (const char* bad : {"Rack", "a*b", "**", "a b"}) {
    request.set_worker_name(bad);
    EXPECT_THAT(Create(request), StatusIs(absl::StatusCode::kInvalidArgument,
                                          HasSubstr("worker_name")))
        << bad;
  }
  request.clear_worker_name();
  request.set_user("rack1@example");
  EXPECT_THAT(Create(request), StatusIs(absl::StatusCode::kInvalidArgument,
                                        HasSubstr("--worker-name")));
  request.set_worker(false);
  request.set_role(v1::ROLE_USER);
  request.set_worker_name("gpu-1");
  EXPECT_THAT(Create(request), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(TokenRolesTest, ACertificateStandsForItsOwnWorker) {
  EXPECT_TRUE(IsCertificateOfWorker("rack1", "rack1"));
  EXPECT_TRUE(IsCertificateOfWorker("GPU_7.example", "gpu-7-example"));
  // The Slurm script names the allocations of a node so.
  EXPECT_TRUE(IsCertificateOfWorker("rack1", "rack1-4711"));
  const std::string node(60, 'n');
  EXPECT_TRUE(IsCertificateOfWorker(node, node));
  EXPECT_TRUE(IsCertificateOfWorker(node, node.substr(0, 50) + "-12"));
  for (const char* other :
       {"rack2", "rack11", "rack1-", "rack1-a", "rack1-4-a", "rack", ""}) {
    EXPECT_FALSE(IsCertificateOfWorker("rack1", other)) << other;
  }
  for (const char* worker : {"", "-1", "1"}) {
    EXPECT_FALSE(IsCertificateOfWorker("", worker)) << worker;
  }
}

class TicketOfficeTest : public TokenStoreTest {
 protected:
  using Purpose = TicketOffice::Purpose;

  TicketOfficeTest() {
    EXPECT_OK(Create("root", v1::ROLE_ADMIN));
    v1::CreateTokenRequest request;
    request.set_user("alice");
    (*request.mutable_queue_roles())["fast"] = v1::ROLE_VIEWER;
    request.mutable_lifetime()->set_seconds(3600);
    token_ = Create(request)->token();
    ticket_.set_model("jobs/a/models/m");
    ticket_.set_worker("gpu-1");
    ticket_.set_user("alice");
    ticket_.set_token(token_.name());
  }

  v1::Token token_;
  Ticket ticket_;
  TicketOffice office_{store_.get(), &clock_};
};

TEST_F(TicketOfficeTest, ATicketIsGoodAtItsWorkerForItsTime) {
  const std::string text =
      office_.Issue(Purpose::kUse, absl::Minutes(1), &ticket_);
  ASSERT_OK_AND_ASSIGN(const Ticket ticket,
                       office_.Check(Purpose::kUse, text, "gpu-1"));
  EXPECT_EQ(ticket.model(), "jobs/a/models/m");
  EXPECT_OK(office_.CheckQueue(ticket, "fast"));
  EXPECT_THAT(office_.CheckQueue(ticket, "slow"),
              StatusIs(absl::StatusCode::kPermissionDenied));
  const auto refused = StatusIs(absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(office_.Check(Purpose::kUse, text, "gpu-2"), refused);
  EXPECT_THAT(office_.Check(Purpose::kUse, text, ""), refused);
  EXPECT_THAT(office_.Check(Purpose::kDownload, text, "gpu-1"), refused);
  clock_.now += absl::Minutes(1);
  EXPECT_THAT(office_.Check(Purpose::kUse, text, "gpu-1"), refused);
}

TEST_F(TicketOfficeTest, ForgedTicketsAreRefused) {
  const std::string text =
      office_.Issue(Purpose::kUse, absl::Minutes(1), &ticket_);
  const auto refused = StatusIs(absl::StatusCode::kUnauthenticated);
  // Every character counts, and another coordinator's key is another.
  for (size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] = changed[i] == 'A' ? 'B' : 'A';
    if (i + 2 >= text.size()) continue;  // bits that no byte has
    EXPECT_THAT(office_.Check(Purpose::kUse, changed, "gpu-1"), refused) << i;
  }
  const TicketOffice other(store_.get(), &clock_);
  EXPECT_THAT(other.Check(Purpose::kUse, text, "gpu-1"), refused);
  for (const std::string& bad :
       {std::string(), std::string("."), std::string("comera-ticket_."),
        text.substr(0, text.find('.')), text.substr(0, text.find('.') + 1)}) {
    EXPECT_THAT(office_.Check(Purpose::kUse, bad, "gpu-1"), refused) << bad;
  }
}

TEST_F(TicketOfficeTest, ATicketEndsWithItsToken) {
  const std::string text =
      office_.Issue(Purpose::kUse, absl::Hours(24), &ticket_);
  clock_.now += absl::Hours(1);
  EXPECT_THAT(office_.Check(Purpose::kUse, text, "gpu-1"),
              StatusIs(absl::StatusCode::kUnauthenticated));
  clock_.now -= absl::Minutes(1);
  EXPECT_OK(office_.Check(Purpose::kUse, text, "gpu-1"));
  ASSERT_OK(Revoke(token_.name()));
  EXPECT_THAT(office_.Check(Purpose::kUse, text, "gpu-1"),
              StatusIs(absl::StatusCode::kUnauthenticated));
}

}  // namespace
}  // namespace comera::server
